"""`plan`, `release` and `vocabulary` of a data frame, and the release as frames."""

from __future__ import annotations

import contextlib
import hmac
import html
import logging
import os
import secrets
import shutil
import sys
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic

import pyarrow as pa
import pyarrow.parquet as pq
from narwhals.typing import IntoFrame, IntoFrameT

from tracecloak.anonymizers.accounting.composition import Spend, total
from tracecloak.anonymizers.registry import method_named
from tracecloak.pipelines.budget.registry import ReleaseRegistry, State
from tracecloak.pipelines.configuration import config
from tracecloak.pipelines.configuration.plan import ReleasePlan, read_plan
from tracecloak.pipelines.frames.frame_source import AnyFrame, FrameSource
from tracecloak.pipelines.keys.receipts import snapshot_of
from tracecloak.pipelines.planning.names import names_of
from tracecloak.pipelines.planning.plan import Plan
from tracecloak.pipelines.release.opening import books_of, fingerprint_of
from tracecloak.pipelines.release.run import run_plan
from tracecloak.pipelines.release.values import STARTING_STATES, Run
from tracecloak.pipelines.runners.failures import redact_foreign_errors
from tracecloak.pipelines.runners.flags import IN_MEMORY
from tracecloak.pipelines.screen import release_text
from tracecloak.schemas.errors import UsageError
from tracecloak.schemas.events.events import ATTRIBUTE_PREFIX
from tracecloak.schemas.published.graph import ReleasedGraph
from tracecloak.schemas.published.manifest import MANIFEST_NAME
from tracecloak.schemas.texts import bounded_json
from tracecloak.transforms.formats.registry import FILE_KEYS
from tracecloak.transforms.publish.release_folder import DFG_NAME, STATEMENT_NAME

if TYPE_CHECKING:
    from tracecloak.pipelines.runners.in_memory import InMemoryDriver

# --- What a release of a frame gives back: the log, the graph and the figures as frames. ----------


_REPORT_NAME = "report.html"
_EDGES = 30


@dataclass(frozen=True)
class Released(Generic[IntoFrameT]):
    """A finished release, as its folder holds it; nothing in it is private.

    Its frames are of the type of the frame that came in.

    Attributes:
        folder: Where it lies.
        release_id: Its name.
        was_released_before: Whether this call found it there, and paid nothing.
        rows: What there is to say of it, as `tracecloak release` shows it: of what, and the text.
        keys: How the frame was read, and where the ledger is: the keys that `evaluate` needs, too.
    """

    folder: Path
    release_id: str
    was_released_before: bool
    rows: tuple[tuple[str, str], ...]
    _like_it: Callable[..., IntoFrameT] = field(repr=False)
    _columns: Mapping[str, str] = field(repr=False)
    keys: Mapping[str, Any] = field(repr=False)

    @cached_property
    def manifest(self) -> dict[str, Any]:
        """Everything that the release says of itself."""
        body: dict[str, Any] = bounded_json((self.folder / MANIFEST_NAME).read_bytes())
        return body

    @cached_property
    def log(self) -> IntoFrameT | None:
        """The released log, of the kind that came in and with its names; None: there is none.

        Its cases are new ones with ids of their own, and its times are in UTC.
        """
        parts = [path for path in self._paths if path.startswith("log/")]
        if not parts:
            return None
        table = pa.concat_tables([pq.read_table(self.folder / path) for path in parts])
        plain = table.replace_schema_metadata(None)
        names = [self._columns.get(n, n) for n in plain.column_names]
        return self._like_it(plain.rename_columns(names), is_log=True)

    @cached_property
    def graph(self) -> IntoFrameT | None:
        """The directly-follows graph as a frame, an edge a row; None: there is none.

        The columns are source, target and count, and where noise was added to a graph also low and
        high, between which the count lies with 95 %, kind and usable. `▶` and `■` are the ends.
        """
        graph = self._graph
        return None if graph is None else self._like_it(graph.to_table())

    @cached_property
    def indicators(self) -> IntoFrameT | None:
        """The indicators as a frame, one a row, with their intervals; None: there are none."""
        return self._product("indicators.parquet")

    @cached_property
    def figures(self) -> IntoFrameT | None:
        """Numbers of the release with their intervals as a frame; None: there are none."""
        return self._product("figures.parquet")

    @cached_property
    def statement(self) -> str:
        """The promise in words, in Markdown."""
        return (self.folder / STATEMENT_NAME).read_text(encoding="utf-8")

    @cached_property
    def variants(self) -> IntoFrameT | None:
        """The variants as a frame, one a row, with intervals where there are some; None: none."""
        return self._product("variants.parquet")

    @property
    def spends(self) -> list[Spend]:
        """What it was charged once, part by part; empty: no finite epsilon."""
        return [Spend.from_json(part) for part in self.manifest["spends"]]

    @property
    def price(self) -> tuple[Fraction | None, Fraction | None]:
        """The epsilon and delta of all that; None: they are not finite."""
        return total(self.spends) if self.spends else (None, None)

    @property
    def report(self) -> Path:
        """The page to open in a browser."""
        return self.folder / _REPORT_NAME

    def export(self, folder: str | os.PathLike[str]) -> Path:
        """Copies the release into a folder of releases, and returns where it lies there."""
        to = Path(folder) / self.folder.name
        return Path(shutil.copytree(self.folder, to, dirs_exist_ok=True))

    def __repr__(self) -> str:
        """Returns what there is to say of it, a line each."""
        width = max(len(name) for name, _ in self.rows)
        return "\n".join(f"{name:<{width}}  {text}" for name, text in self.rows)

    def _repr_html_(self) -> str:
        """Returns the map, or the tree, and below it what there is to say of the release."""
        rows = "".join(
            f"<tr><th>{html.escape(name)}</th>"
            f"<td style='text-align:left'>{html.escape(text)}</td></tr>"
            for name, text in self.rows
        )
        return f"<div>{self._picture}<table>{rows}</table></div>"

    @property
    def _picture(self) -> str:
        trees = [path for path in self._paths if path == "tree.svg"]
        if trees:
            return (self.folder / trees[0]).read_text(encoding="utf-8")
        graph = self._graph
        if graph is None or not len(graph.counts):
            return ""
        from tracecloak.transforms.models.dfg_svg import write_svg

        title = self.manifest.get("about", {}).get("title") or self.release_id
        return write_svg(graph, title, str(self.manifest["guarantee"]["sentence"]), _EDGES)

    @cached_property
    def _graph(self) -> ReleasedGraph | None:
        if DFG_NAME not in self._paths:
            return None
        return ReleasedGraph.from_json(bounded_json((self.folder / DFG_NAME).read_bytes()))

    @property
    def _paths(self) -> list[str]:
        return [output["path"] for output in self.manifest["outputs"]]

    def _product(self, name: str) -> IntoFrameT | None:
        if name not in self._paths:
            return None
        table = pq.read_table(self.folder / name).replace_schema_metadata(None)
        return self._like_it(table)


# --- `tracecloak.release`, `plan` and `vocabulary`: what takes a frame instead of files. ----------
# Keywords are the keys of a configuration and the parameters of the method, with the values that
# a configuration file has, or the texts of flags.
#
# The name of a release of a frame that was given none: that of the same one, or a new one.


_LOG = logging.getLogger("tracecloak")
_OPERATOR = logging.getLogger("tracecloak.operator")
NOT_OF_FRAMES = (
    *("log", "query", "database", "input_format", *FILE_KEYS, "runner"),
    *("schedule", "window", "book", "book_key", "jobs"),
)
"""Keys that say where files are and how their bytes are read, what runs the work, or which window
of a lake is released."""
# Those that whoever compares a release with its frame needs again.
_OF_EVALUATION = (
    *("key_store", "ledger", "where", "rename", "drop_duplicates"),
    *config.Columns.model_fields,
)


def release(
    frame: IntoFrameT,
    *,
    method: str,
    params: Mapping[str, Any] | None = None,
    output: str | os.PathLike[str] = "releases",
    release_id: str | None = None,
    **keys: Any,
) -> Released[IntoFrameT]:
    """Releases a log that is in memory, and returns the release.

    The second call with the same events and parameters returns the finished release and pays
    nothing. Any other call is another release, and the log says what it takes and what is left
    before it is paid. Events of a case with equal stamps are in the order of the column `order`, if
    it is given, and then of the rows; those of a lazy frame, whose rows have no order, in that of
    the names of activities.

    Args:
        frame: A frame of pandas, polars, Arrow or DuckDB, or a log of pm4py; a row is an event.
        method: Name of the method; for type checkers one of another distribution is a
            `tracecloak.PluginMethod`.
        params: Parameters of the method, each of which can be a keyword instead.
        output: Folder of all releases.
        release_id: The release's name; None: a new one, or that of the same release.
        **keys: Parameters of the method, such as `epsilon`, and keys of a configuration, such as
            `case_id`, `timestamp_format`, `where`, `key_store`, `ledger` or `account`.

    Returns:
        The release.

    Raises:
        TracecloakError: Nothing was released, for the reason that the error's class and text give.
    """
    with redact_foreign_errors():
        made = plan_with(method, params, {"output": output, "release_id": release_id, **keys})
        return released(made, source_over(AnyFrame.of(frame), made), keys)


def released(
    plan: ReleasePlan,
    source: FrameSource,
    keys: Mapping[str, Any],
    driver: InMemoryDriver | None = None,
) -> Released[Any]:
    """Makes the release of a plan of a frame, or finds it, and returns it; see `release`.

    Args:
        plan: What is to be made.
        source: The frame.
        keys: Of the configuration, as they were given.
        driver: What runs it; None: one of its own.
    """
    began_s = time.monotonic()
    source = source.with_digest()
    with _named(plan, source) as named, _operator_alone():
        outcome = run_plan(named, before=_tell_price, source=source, driver=driver)
    names = source.names_of(source.files[0], None)
    columns = {n: c for n, c in names.items() if not n.startswith(ATTRIBUTE_PREFIX)}
    took_s = time.monotonic() - began_s
    rows = [*release_text.release_rows(named, outcome, took_s, is_private=False)]
    # The same words whatever was read: a notebook is shown to others.
    rows.append(("left out", f"{outcome.dead_letter} says which rows and why, if any"))
    return Released(
        Path(outcome.folder.final),
        outcome.folder.release_id,
        outcome.was_released_before,
        tuple(rows),
        source.frame.like_it,
        {**columns, **dict(source.mapping.attributes)},
        {name: value for name, value in keys.items() if name in _OF_EVALUATION},
    )


def _tell_price(run: Run) -> None:
    """Says what a release takes and what is left, before it is paid."""
    if run.books.look().state in STARTING_STATES:
        left = release_text.remaining_text(run.books.ledger, run.plan.keys.account)
        name, cost = run.books.folder.release_id, release_text.cost_text(run.plan)
        _LOG.warning("release %s takes %s; %s", name, cost, left)


def plan(
    frame: IntoFrame,
    *,
    method: str,
    params: Mapping[str, Any] | None = None,
    output: str | os.PathLike[str] = "releases",
    release_id: str | None = None,
    goal: str = "",
    **keys: Any,
) -> Plan:
    """Returns what `release` would do with the same arguments, and what it would be worth.

    Nothing is paid, and of the rows only the first are looked at, but for methods without an
    epsilon that foretell something of a whole log.

    Args:
        frame: See `release`.
        method: See `release`.
        params: See `release`.
        output: See `release`.
        release_id: See `release`.
        goal: How good it is to be, such as "graph within 10 %", "variants of 60 %" or "figures",
            for which the plan says the least epsilon.
        **keys: See `release`.

    Returns:
        The plan, which prints as what matters most; its `details` have the rest.

    Raises:
        TracecloakError: A parameter is wrong, or the frame lacks a column.
    """
    with redact_foreign_errors():
        made = plan_with(method, params, {"output": output, "release_id": release_id, **keys})
        return release_text.planned(made, source_over(AnyFrame.of(frame), made), goal)


def vocabulary(frame: IntoFrame, **keys: Any) -> list[str]:
    """Returns the names of a log's activities, sorted, for its operator to read and strike out.

    They are data until somebody answers for them: no epsilon covers a name that is declared.

    Args:
        frame: See `release`.
        **keys: Keys of a configuration that say how a log is read, such as `activity` or `where`.

    Raises:
        TracecloakError: A key is wrong, or the frame lacks a column.
    """
    with redact_foreign_errors():
        return list(names_of(frame_source(frame, keys)).names)


def frame_source(frame: IntoFrame, keys: Mapping[str, Any]) -> FrameSource:
    """Returns a frame as a source, by the keys that say how a log is read."""
    check_keys(keys)
    return source_over(AnyFrame.of(frame), config.load_log({"log": config.FRAME, **keys}))


def source_over(frame: AnyFrame, of: config.SourceConfig | ReleasePlan) -> FrameSource:
    """Returns a frame as a source, by a plan or by how a log is read."""
    keys = of.keys if isinstance(of, ReleasePlan) else of
    return FrameSource.over(frame, of.mapping, keys.drop_duplicates)


def plan_with(method: str, params: Mapping[str, Any] | None, keys: dict[str, Any]) -> ReleasePlan:
    """Returns the plan of a release of a frame, by the keywords of `release`."""
    # A parameter of the method may have the name of a key of files, such as query.
    check_keys(keys.keys() - method_named(method).Params.model_fields.keys())
    # One process makes the parts, and whoever reads them gets one frame.
    whole = {"parts": 1, **config.merge_params(params, keys)}
    whole["output"] = os.fspath(whole["output"])
    whole["formats"] = list(dict.fromkeys(["parquet", *config.listed(whole.get("formats", ()))]))
    return read_plan(None, {"log": config.FRAME, "runner": IN_MEMORY, "method": method, **whole})


def check_keys(keys: Collection[str]) -> None:
    """Refuses keys that are for files, and not for a frame."""
    for name in NOT_OF_FRAMES:
        if name in keys:
            raise UsageError(
                f"{name} is for files, and a frame is in memory; leave it out, or release files "
                "with `tracecloak release`"
            )


@contextlib.contextmanager
def _named(plan: ReleasePlan, source: FrameSource) -> Iterator[ReleasePlan]:
    """Returns the plan with a name; if it had none, no other process names one now."""
    if plan.keys.release_id is not None:
        yield plan
        return
    books = books_of(plan)
    which = books.store.digest(f"{source.files[0].digest}\n{plan.digest}")[:16]
    with books.store.locked(f"frame-{which}.lock"):
        yield plan.with_keys(release_id=name_of(plan, source, books))


@contextlib.contextmanager
def _operator_alone() -> Iterator[None]:
    """Keeps what is told of the data from whoever reads a service's log or a saved notebook.

    The operator's folder has it, and somebody who sits at a terminal reads it there.
    """
    logger, before = _OPERATOR, _OPERATOR.propagate
    logger.propagate = sys.stderr.isatty()
    # Python shows warnings that nobody handles. The folder's file handles these, and shows nothing.
    screen = None if logger.hasHandlers() else logging.lastResort
    if logger.propagate and screen is not None:
        logger.addHandler(screen)
    try:
        yield
    finally:
        logger.propagate = before
        if screen is not None:
            logger.removeHandler(screen)


# In these states the same command goes on with a release, or finds it.
_GOES_ON: tuple[State, ...] = ("reserved", "drawn", "visible", "released")


def name_of(plan: ReleasePlan, source: FrameSource, books: ReleaseRegistry) -> str:
    """Returns the name of a release of the same events and configuration, or a new one.

    A new name is drawn at random, and the method's stands before it: a digest of the events would
    tell a reader whether the log changed.

    Args:
        plan: What is to be released, without a name.
        source: Of what; with its digest.
        books: Of a release in the same output, which say what was begun and what became of it.

    Raises:
        TracecloakError: They cannot be read.
    """
    folder = books.folder
    fingerprint = fingerprint_of(plan, books.store, snapshot_of(source.files))
    for receipt in books.store.receipts():
        is_same = hmac.compare_digest(receipt.input_fingerprint, fingerprint)
        if receipt.output == folder.output and is_same and receipt.config_digest == plan.digest:
            released_folder = replace(folder, release_id=receipt.release_id)
            if replace(books, folder=released_folder).look().state in _GOES_ON:
                return receipt.release_id
    return f"{plan.method.name}-{secrets.token_hex(4)}"
