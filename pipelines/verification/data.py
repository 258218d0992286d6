"""Whether the data of a release, or the steps of an epoch, can be read and agree in all forms."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, BinaryIO

import pyarrow as pa

from tracecloak.pipelines.verification.folder import (
    NotApplicable,
    ReceivedFolder,
    ReceivedParquet,
    Unsure,
    Wrong,
    quote_names,
)
from tracecloak.pipelines.verification.log_forms import PART, LogForm, check_same, forms_of
from tracecloak.pipelines.verification.promise import BoundedXml
from tracecloak.pipelines.verification.received import Received
from tracecloak.schemas.arrays.merging import Totals
from tracecloak.schemas.errors import GuaranteeError, UsageError
from tracecloak.schemas.events import events
from tracecloak.schemas.events.traces import TraceBatch
from tracecloak.schemas.published.figures import ReleasedProduct
from tracecloak.schemas.published.manifest import MANIFEST_NAME, STAMPED, Yield, has_times
from tracecloak.schemas.published.rows import traces_of_rows
from tracecloak.schemas.published.step import StepIndicators, StepRelease
from tracecloak.schemas.published.variants import KINDS_OF_LOG_COUNTS, LogCounts, count_released
from tracecloak.transforms.formats.xes_writer import sanitise
from tracecloak.transforms.publish.products import PRODUCTS, products_of_log
from tracecloak.transforms.publish.release_files import log_graph_json
from tracecloak.transforms.publish.release_folder import DFG_NAME

# --- Whether the data of a release can be read, and whether all that it holds agrees. -------------


_XML = (".svg", ".pnml", ".bpmn", ".ptml", ".html.xml")
_ROUNDING = 1e-4  # of the shares in a manifest, which have four decimals
_PIECE_BYTES = 1 << 18
_NAMES_BYTES = 32 << 20
"""What the names of activities may take: 300,000 short ones, or 8,000 of the longest."""
_PRODUCTS_BYTES = 64 << 20
_MOST_EVENTS = 10_000_000
_MOST_BYTES = 512 << 20
"""Of a log that is held as a whole."""
_MAX_ROWS = 20_000_000
"""Rows of a product that is not a log."""


@dataclass(frozen=True)
class Contents:
    """The data of a release whose files are those of its manifest.

    Attributes:
        received: The release.
    """

    received: Received

    @cached_property
    def logs(self) -> list[LogForm]:
        """The forms of its log, see `forms_of`; none of a release without a log."""
        came_out = self.received.body["came_out"]
        n_cases, n_longest = came_out.get("n_cases"), came_out.get("max_events")
        most = None if n_cases is None or n_longest is None else n_cases * n_longest
        return forms_of(self.received.folder, self.received.paths, max_events=most)

    @cached_property
    def schema(self) -> pa.Schema:
        """The columns of its log.

        Raises:
            Wrong: They are not those that the method's parameters declare.
            Unsure: There is no Parquet, and the method is not known.
        """
        file_schema = self.logs[0].schema()
        try:
            method, params = self.received.method_and_params()
        except Unsure:
            if file_schema is None:
                raise
            return file_schema
        columns = method.released_columns(params)
        if self.received.body["tool"]["version"].startswith(STAMPED):
            columns.pop(events.EVENT_INDEX, None)
        declared = events.released_schema(columns)
        if file_schema is None:
            return declared
        if [(f.name, f.type) for f in file_schema] != [(f.name, f.type) for f in declared]:
            raise Wrong(f"{self.logs[0].name} has other columns than the parameters declare.")
        return file_schema

    @cached_property
    def vocabulary(self) -> events.ActivityVocabulary:
        """The activities of the log."""
        return self._vocabulary(self.schema)

    def _vocabulary(self, schema: pa.Schema) -> events.ActivityVocabulary:
        names: set[str] = set()
        n_left = _NAMES_BYTES
        for rows in self.logs[0].rows(schema):
            new = set(rows.column(events.ACTIVITY).unique().to_pylist()) - names
            n_left -= sum(map(sys.getsizeof, new))
            if n_left < 0:
                raise Unsure(f"The names of activities take more than {_NAMES_BYTES >> 20} MiB.")
            names |= new
        return events.ActivityVocabulary.of(pa.array(sorted(names), pa.string()))

    def traces(self) -> Iterator[TraceBatch]:
        """Yields the cases of the log, in one vocabulary."""
        for rows in self.logs[0].rows(self.schema):
            yield traces_of_rows(rows).recode(self.vocabulary)

    def whole(self, attributes: Collection[str] = ()) -> TraceBatch | None:
        """Returns all cases of the log at once, as an examination needs them; None: there is none.

        Of a log without times the numbers of events are in their place: whoever reads it asks
        `has_times` before looking at them.

        Args:
            attributes: Those that it has beside the starts of events, as far as the log has them.

        Raises:
            Wrong: It cannot be read.
            Unsure: It has more than 10,000,000 events, or names and values of 512 MiB.
        """
        if not self.logs:
            return None
        try:
            schema = self.schema
        except Unsure:  # what every log has can be read all the same
            is_timed = has_times(self.received.body["operations"])
            schema = events.released_schema({} if is_timed else {events.EVENT_INDEX: pa.int64()})
        names = [*schema.names[:3], events.START_TIMESTAMP, *attributes]
        names = [name for name in dict.fromkeys(names) if name in schema.names]
        none = pa.RecordBatch.from_pylist([], pa.schema([schema.field(name) for name in names]))
        vocabulary = self._vocabulary(schema)
        batches, n_events, n_bytes = [traces_of_rows(none).recode(vocabulary)], 0, 0
        for rows in self.logs[0].rows(schema):
            batches.append(traces_of_rows(rows.select(names)).recode(vocabulary))
            n_events, n_bytes = n_events + rows.num_rows, n_bytes + batches[-1].nbytes
            if n_events > _MOST_EVENTS or n_bytes > _MOST_BYTES:
                raise Unsure(
                    f"{self.logs[0].name} has more than {_MOST_EVENTS:,} events, or is too large."
                )
        return TraceBatch.concat(batches)

    @cached_property
    def counted(self) -> LogCounts:
        """What is counted on the log."""
        counts = Totals(KINDS_OF_LOG_COUNTS)
        for batch in self.traces():
            counts.add(count_released(batch))
        return LogCounts(**counts.result())

    @cached_property
    def products(self) -> dict[str, ReleasedProduct | None]:
        """The products by name; None: this installation has no kind that has such JSON values.

        Raises:
            Unsure: Their JSON files together are too long.
        """
        folder = self.received.folder
        if sum(folder.sizes.get(f"{n}.json", 0) for n in self.received.products) > _PRODUCTS_BYTES:
            raise Unsure(
                f"Not checked: the products have more than {_PRODUCTS_BYTES >> 20} MiB of JSON."
            )
        return {name: _read_back(folder, f"{name}.json") for name in self.received.products}

    def require_names(self) -> None:
        """Looks whether the log has the names that were released.

        Raises:
            Unsure: It is there as XES alone, and its graph has a name that XML cannot hold.
        """
        if not self.logs or self.logs[0].kind != "xes":
            return
        if any(sanitise(name) != name for name in _texts_in(self.received.folder.json(DFG_NAME))):
            raise Unsure(
                f"{DFG_NAME} has a name that XML cannot hold, so the log cannot be compared."
            )

    # --- the checks -------------------------------------------------------------------------------

    def check_readable(self) -> str:
        """Every file can be read as what its name says, and logs have the columns that they must.

        Raises:
            Wrong: One cannot.
        """
        paths = self.received.paths
        numbers = sorted(int(match[1]) for p in paths if (match := PART.fullmatch(p)))
        if numbers != list(range(len(numbers))):
            raise Wrong("The parts of the log are not numbered from 0 on: one is missing.")
        for form in self.logs:
            for _ in form.rows(self.schema):
                pass
        log_paths = {path for form in self.logs for path in form.paths}
        for path in paths:
            if path not in log_paths:
                _check_readable(self.received, path)
        kinds = "The log has the columns that it must have, and" if self.logs else "Every table,"
        return f"{kinds} every other file is of the format that its name says."

    def check_forms(self) -> str:
        """All forms of the same log, graph, tree or table say the same.

        Raises:
            Wrong: Two forms differ.
            Unsure: They are of a product or have a name that cannot be compared here.
            NotApplicable: There is nothing in two forms.
        """
        compared = []
        for form in self.logs[1:]:
            check_same(self.logs[0], form, self.schema)
        if len(self.logs) > 1:
            compared.append(f"the log in {' and '.join(form.kind for form in self.logs)}")
        # What cannot be compared comes last: it hides nothing that is wrong.
        for name in sorted(self.products, key=lambda name: self.products[name] is None):
            self._check_product(name)
            compared.append(f"{name} in Parquet and JSON")
        if self.logs and DFG_NAME in self.received.paths:
            if self.received.folder.json(DFG_NAME) != log_graph_json(
                self.counted.graph, self.vocabulary
            ):
                self.require_names()
                raise Wrong(f"{DFG_NAME} is not the graph of {self.logs[0].name}.")
            compared.append(f"the log and its graph, {DFG_NAME}")
        if self.logs:
            compared += self._check_products_of_log()
        if not compared:
            raise NotApplicable("Nothing is there in two forms.")
        return f"The same is said by {'; '.join(compared)}."

    def check_numbers(self) -> str:
        """What the manifest says came out is what the files hold.

        Raises:
            Wrong: The manifest has other numbers.
            Unsure: A graph or a tree is not as this version has it.
            NotApplicable: There is neither a log nor a graph nor a tree.
        """
        counted = self._result_size()
        stated = self.received.body["came_out"]
        usability = self.received.body.get("usability")
        if usability not in (None, Yield(**stated).usability):
            raise Wrong(f"usability in {MANIFEST_NAME} is not what came_out says.")
        numbers = {name: n for name, n in vars(counted).items() if n is not None}
        if not numbers:
            raise NotApplicable("There is neither a log nor a graph nor a tree to count.")
        # Earlier releases do not say all of it.
        known = {name: number for name, number in numbers.items() if name in stated}
        wrong = [name for name, number in known.items() if not _is_close(number, stated[name])]
        if wrong:
            raise Wrong(f"came_out.{wrong[0]} in {MANIFEST_NAME} is not what the files hold.")
        return f"What {MANIFEST_NAME} says came out is what the files hold."

    def check_property(self) -> str:
        """The log has the property that a syntactic method promises.

        Raises:
            Wrong: It has not.
            NotApplicable: None is promised, or this installation does not know the method.
        """
        if not self.received.body["verified"]:
            raise NotApplicable("The promise is about noise, which cannot be seen in the files.")
        method, params = self.received.method_and_params()
        if not method.verifies or not self.logs:
            raise Wrong(f"{MANIFEST_NAME} says that a property of the log was verified: none is.")
        try:
            method.verify(list(self.traces()), params)
        except GuaranteeError as error:
            raise Wrong(f"The log does not keep what {method.name} promises: {error}.") from None
        return f"The log keeps what {method.name} promises: that was counted anew on its files."

    # --- what they need ---------------------------------------------------------------------------

    def _check_product(self, name: str) -> None:
        """Makes sure that the Parquet and the JSON file of a product have the same rows."""
        product = self.products[name]
        if product is None:
            raise Unsure(f"This installation cannot read {quote_names([f'{name}.json'])} back.")
        expected, first = product.to_table(), 0
        with self.received.folder.reading(f"{name}.parquet") as stream:
            file = _table(self.received, f"{name}.parquet", stream)
            is_same = file.file.metadata.num_rows == expected.num_rows
            for rows in file.batches() if is_same else ():
                like_it = expected.slice(first, rows.num_rows)
                is_same = is_same and rows.to_pylist() == like_it.to_pylist()
                first += rows.num_rows
        if not is_same:
            raise Wrong(f"{quote_names([f'{name}.json', f'{name}.parquet'])} do not agree.")

    def _check_products_of_log(self) -> list[str]:
        """Makes again what follows from the log and the other products, and returns it in words."""
        known = {name: product for name, product in self.products.items() if product is not None}
        following = products_of_log(known, self.counted)
        for name, expected in following.items():
            if name in known and known[name].to_json() == expected.to_json():
                continue
            self.require_names()
            if not self.received.is_by_this_version:
                raise Unsure(
                    f"{name}.json can be made again by tracecloak {self.received.version} alone."
                )
            raise Wrong(f"{name}.json is not what follows from {self.logs[0].name}.")
        return [f"the log and its {name}" for name in following]

    def _result_size(self) -> Yield:
        if self.logs:
            return self.counted.came_out
        came_out = Yield()
        # Versions before 0.2 had no number of cases of figures.
        has_figures = not self.received.body["tool"]["version"].startswith(STAMPED)
        for name in (*["figures"] * has_figures, "dfg", "tree"):
            if name in self.received.products:
                product = self.products[name]
                if product is None:
                    raise Unsure(f"This installation cannot read {name}.json back.")
                came_out = came_out.beside(product.came_out())
        return came_out


def _texts_in(value: Any) -> Iterator[str]:
    """Yields the texts among JSON values, without the keys."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _texts_in(inner)


def _read_back(folder: ReceivedFolder, path: str) -> ReleasedProduct | None:
    try:
        body = folder.json(path)
    except Wrong:  # which the checks of the data say
        return None
    for name in PRODUCTS:
        # Whatever values of another kind, or of none, make a kind raise.
        with contextlib.suppress(Exception):
            return PRODUCTS[name].read(body)
    return None


def _check_readable(received: Received, path: str) -> None:
    folder = received.folder
    if path.endswith(".json"):
        folder.json(path)
    elif path.endswith(".parquet"):
        with folder.reading(path) as stream:
            for _ in _table(received, path, stream).batches():
                pass
    elif path.endswith(_XML):
        data, reader = folder.read(path), BoundedXml()
        with folder.reading(path):
            for at in range(0, len(data), _PIECE_BYTES):
                reader.parser.Parse(data[at : at + _PIECE_BYTES], False)
            reader.parser.Parse(b"", True)
    elif path.endswith((".md", ".dot", ".tree", ".html")):
        folder.text(path)


def _table(received: Received, path: str, stream: BinaryIO) -> ReceivedParquet:
    """Returns a product, which cannot have more rows than its JSON form has bytes."""
    listed = {output["path"]: output["n_bytes"] for output in received.outputs}
    most = listed.get(f"{path.removesuffix('.parquet')}.json", _MAX_ROWS)
    return ReceivedParquet(stream, min(most, _MAX_ROWS))


def _is_close(number: float, stated: float | None) -> bool:
    if isinstance(number, int) or stated is None:
        return number == stated
    return abs(number - stated) <= _ROUNDING


# --- The steps of an epoch of a stream: whole, of this epoch, and the same in all their forms. ----


_ENDINGS = (".json", "/step.json")


def check_steps(received: Received) -> str:
    """Every step that is there is of this epoch, and its forms say the same.

    Raises:
        Wrong: One is not, or they do not.
        NotApplicable: There is no step yet.
    """
    steps = list(received.steps())
    for number, forms in steps:
        _check_step(received, number, forms)
    if not steps:
        raise NotApplicable("No step has been published yet.")
    n_steps = received.body["stream"]["n_steps"]
    return f"{len(steps):,} of the {n_steps:,} steps are there, each the same in all its forms."


def _check_step(received: Received, number: int, forms: dict[str, str]) -> None:
    path = next((forms[ending] for ending in _ENDINGS if ending in forms), None)
    if path is None:
        raise Wrong(
            f"{quote_names(forms.values())}: the step has no JSON file, which is written last."
        )
    body = received.folder.json(path)
    stream, params = received.body["stream"], received.body["params"]
    name, _, epoch = received.body["release_id"].partition("@")
    expected = {
        "release_id": name,
        "epoch": epoch,
        "product": params.get("product"),
        "view": params.get("view"),
        "step": number,
        "end_us": stream["start_us"] + (number + 1) * stream["period_us"],
        "n_steps_left": stream["n_steps"] - 1 - number,
        "epsilon": params.get("epsilon"),
        "delta": params.get("delta"),
    }
    for key, value in expected.items():
        if not isinstance(body, dict) or body.get(key) != value:
            raise Wrong(f"{quote_names([path])}: {key} is not as {MANIFEST_NAME} has it.")
    if expected["n_steps_left"] < 0:
        raise Wrong(f"{quote_names([path])}: the epoch has no step of this number.")
    if ".json" in forms:
        _check_table(received, path, forms.get(".parquet"))
        return
    logs = forms_of(received.folder, list(forms.values()), path.removesuffix("step.json"))
    if logs and (schema := logs[0].schema()) is not None:
        for form in logs:
            check_same(logs[0], form, schema)


def _check_table(received: Received, path: str, table_path: str | None) -> None:
    data = received.folder.read(path)
    is_of_indicators = received.body["params"].get("product") == "indicators"
    kind: type[StepRelease | StepIndicators] = StepIndicators if is_of_indicators else StepRelease
    try:
        release = kind.from_json(data)
    except UsageError:
        raise Wrong(f"{quote_names([path])} is no release of a step.") from None
    if release.to_json() != data or not _follows(release):
        raise Wrong(
            f"{quote_names([path])}: its intervals or figures do not follow from its counts."
        )
    if table_path is None:
        return
    expected = release.to_rows().to_pylist()
    with received.folder.reading(table_path) as stream:
        file = ReceivedParquet(stream, len(expected))
        rows = [row for batch in file.batches() for row in batch.to_pylist()]
    if rows != expected:
        raise Wrong(f"{quote_names([table_path])} says something else than {quote_names([path])}.")


def _follows(release: StepRelease | StepIndicators) -> bool:
    """Whether intervals and figures of a graph are those that its counts give, if it has any."""
    if isinstance(release, StepIndicators) or release.product != "dfg" or release.lows is None:
        return True
    from tracecloak.anonymizers.streams.dfg_steps import with_intervals

    try:
        return with_intervals(replace(release, lows=None, highs=None, figures=None)) == release
    except (ArithmeticError, TypeError, ValueError):
        return False
