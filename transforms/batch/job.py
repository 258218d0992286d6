"""A release in a pipeline: what its stages share, its draws, and the one commit; without Beam."""

from __future__ import annotations

import hashlib
import hmac
import json
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa

import tracecloak.transforms.columnar_names  # noqa: F401  # names what is encoded
from tracecloak.anonymizers.contract.case_digests import CaseSketch, CountedUnits
from tracecloak.anonymizers.contract.in_memory import INPUT_DIGEST, Known, MethodRun
from tracecloak.anonymizers.contract.method import Decision, Products
from tracecloak.anonymizers.noise.randomness import Randomness, ReleaseKey
from tracecloak.schemas.arrays.columnar import decode, encode
from tracecloak.schemas.errors import GuaranteeError, UsageError
from tracecloak.schemas.events.tally import ReadTally
from tracecloak.schemas.events.traces import TraceBatch
from tracecloak.schemas.published.manifest import OutputFile, ReleaseManifest
from tracecloak.schemas.published.variants import LogCounts
from tracecloak.schemas.windows import Schedule, Window, members
from tracecloak.transforms.files import (
    delete_files,
    exists,
    join,
    names_in,
    open_raw,
    read_if_there,
    write_anew,
    write_new,
)
from tracecloak.transforms.keys.wrapping import KeyReference, read_sealed, write_sealed
from tracecloak.transforms.operator_log import kept_on_worker
from tracecloak.transforms.publish.release_folder import (
    DFG_NAME,
    PARTS,
    STATEMENT_NAME,
    ReleaseFolder,
)
from tracecloak.transforms.sources import EventSource

if TYPE_CHECKING:
    from tracecloak.transforms.keys.signing import SigningReference


_LOG = logging.getLogger("tracecloak")
_OPERATOR = logging.getLogger("tracecloak.operator")

# --- Decisions that are kept, so that a run that goes on after one was cut off draws nothing anew.


_REMEDY = "the release cannot be finished; give it up with `tracecloak ledger forfeit`"


@dataclass(frozen=True)
class KeptDraws:
    """Decisions in the files of a folder that only the operator reads; it pickles.

    The files hold noisy values, and exact ones for published methods. Each file is authenticated
    with the release's key, so that no other bytes are taken for a decision.

    Attributes:
        folder: On any Beam file system.
        key: Where the release's key is. If the release was given up, its key is gone and nothing
            is drawn.
        before: Called before anything is drawn; raises if nothing may be drawn.
    """

    folder: str
    key: KeyReference
    before: Callable[[], None] | None = None

    def once(
        self, round_name: str, randomness: Randomness, decide: Callable[[], Decision]
    ) -> Decision:
        """Returns what a round decided; see `contract.draws.Draws`.

        Raises:
            UsageError: The key is gone, or the round was decided on another input.
            TracecloakError: A kept decision was changed.
        """
        key = self.key.resolve()
        name = hashlib.sha256(round_name.encode()).hexdigest()[:16]  # that every file system takes
        path = f"{self.folder.rstrip('/')}/{name}.decision"
        about = hashlib.sha256(
            "\n".join((round_name, randomness.input_digest, randomness.decided)).encode()
        ).digest()
        decision = self._read(path, key, round_name, about)
        if decision is not None:
            return decision
        if self.before is not None:
            self.before()
        write_sealed(path, key, round_name, about + encode(decide()))
        # The decision that is kept counts, as another worker may have been first.
        return cast(Decision, self._read(path, key, round_name, about))

    def _read(self, path: str, key: ReleaseKey, round_name: str, about: bytes) -> Decision | None:
        message = read_sealed(path, key, round_name, _REMEDY)
        if message is None:
            return None
        if not hmac.compare_digest(message[: len(about)], about):
            raise UsageError(
                f"the round {round_name!r} was decided on another input: restore that, and run "
                "again, or give the release up with `tracecloak ledger forfeit`"
            )
        return cast(Decision, decode(message[len(about) :]))


# --- The sketch of the cases that a release reads, in a file for the keeper of the ledger. --------


@dataclass(frozen=True)
class SketchFile:
    """Where a run puts the sketch; it pickles.

    Attributes:
        path: A file of the run's workplace, on any Beam file system.
        key: Where workers find the key of the deployment.
        kept_until: Day after which the sketch is to be erased, as 2026-12-31.
    """

    path: str
    key: KeyReference
    kept_until: str

    def write(self, sketch: CaseSketch, key: ReleaseKey) -> None:
        """Writes the file, unless an earlier try of the same run wrote it."""
        about = {"key": key.fingerprint, "kept_until": self.kept_until}
        write_new(self.path, json.dumps(about).encode() + b"\n" + sketch.to_bytes())


@dataclass(frozen=True, eq=False)
class WrittenSketch:
    """The content of a sketch file.

    Attributes:
        sketch: That of the cases it read.
        key_fingerprint: Tells keys of deployments apart.
        kept_until: See `SketchFile`.
    """

    sketch: CaseSketch
    key_fingerprint: str
    kept_until: str

    @classmethod
    def parse(cls, data: bytes) -> WrittenSketch:
        """Returns what is in a file.

        Raises:
            ValueError: The file was not written by a run.
        """
        head, _, body = data.partition(b"\n")
        about = json.loads(head)
        return cls(CaseSketch.from_bytes(body), about["key"], about["kept_until"])


# --- The dead letter: malformed records by their places, and how many of them end a run. ----------


_TALLY = "tally.json"


@dataclass(frozen=True)
class DeadLetter:
    """Where malformed records are listed, and how many may be.

    A line says the file's rank among the inputs, the record's number in it, from 1, and the reason;
    nothing of the record itself. The list is the operator's: the numbers in it come from private
    data.

    Attributes:
        folder: Gets one `file-<rank>.jsonl` per input with malformed records, and `tally.json`, how
            many records were used, lost and set aside.
        max_error_ratio: Largest share of malformed records among all, in [0, 1].
    """

    folder: str
    max_error_ratio: float

    def write(self, rank: int, batches: Iterable[pa.RecordBatch]) -> None:
        """Lists the malformed records of one input file, in the order of their numbers."""
        rows = sorted((row for b in batches for row in b.to_pylist()), key=lambda r: r["record"])
        numbered = ({**row, "record": row["record"] + 1} for row in rows)
        text = "".join(json.dumps(row) + "\n" for row in numbered)
        write_anew(join(self.folder, f"file-{rank:05d}.jsonl"), text.encode())

    def check(self, tally: ReadTally) -> None:
        """Notes the records for `told`, and ends the run if too many of them were malformed.

        Raises:
            InputSchemaError: They are; `told` has the numbers.
        """
        self._write_tally(tally)
        tally.check(self.max_error_ratio, f"{self.folder} says why, and where each one is")

    def begin(self) -> None:
        """Forgets what an earlier run noted."""
        path = join(self.folder, _TALLY)
        if exists(path):
            delete_files([path])

    def note_duplicates(self, n: int) -> None:
        """Notes how many events were dropped as duplicates, once `check` has noted the records."""
        if n and (tally := self.told()) is not None:
            self._write_tally(tally.with_duplicates(n))

    def told(self) -> ReadTally | None:
        """Returns what was found of the records; None as long as `check` has not noted it.

        They are read from the folder, as workers elsewhere cannot report them in another way.
        """
        text = read_if_there(join(self.folder, _TALLY))
        return None if text is None else ReadTally.from_json(json.loads(text))

    def _write_tally(self, tally: ReadTally) -> None:
        write_anew(join(self.folder, _TALLY), f"{json.dumps(tally.to_json())}\n".encode())


# --- A window's part of a log: which cases belong to it, and which of them count. -----------------
# A release of a window reads its input twice. First it writes down the units of the window's
# cases, which are then claimed in the book of counted units. Then the release is made of the
# cases whose units were claimed, as the frozen set has them, and of no others.


_ENDING = ".units"


@dataclass(frozen=True)
class WindowPart:
    """Which cases of a log are those of one window; it pickles.

    Attributes:
        schedule: The windows.
        window: One of them.
        book_key: Where workers find the key under which units are written down.
        by_individual: Whether the unit of privacy is the individual.
        found: Folder for the units that a first run over the log finds.
        frozen: File of the units that the release may count, once they are claimed.
    """

    schedule: Schedule
    window: Window
    book_key: KeyReference
    by_individual: bool
    found: str
    frozen: str

    def units(self, traces: TraceBatch) -> CountedUnits:
        """Returns the units of the cases of a batch that belong to the window."""
        belonging = members(traces, self.schedule, self.window)
        return CountedUnits.from_traces(belonging, self._key, self.by_individual)

    def counted(self, traces: TraceBatch) -> TraceBatch:
        """Returns the cases of a batch that belong to the window and may count.

        Its vocabulary has the names of their events alone.
        """
        belonging = members(traces, self.schedule, self.window)
        return self._frozen.kept(belonging, self._key).with_used_names()

    def write_units(self, traces: TraceBatch) -> None:
        """Writes down the units of a batch; the same units are the same file, however often."""
        data = self.units(traces).to_bytes()
        name = hashlib.sha256(data).hexdigest() + _ENDING
        write_new(join(self.found, name), data)

    def found_units(self) -> CountedUnits:
        """Returns all units that were found."""
        names = sorted(name for name in names_in(self.found) if name.endswith(_ENDING))
        paths = [join(self.found, name) for name in names]
        return CountedUnits.merge([CountedUnits.from_bytes(_data_of(path)) for path in paths])

    @cached_property
    def _key(self) -> Any:
        return self.book_key.resolve()

    @cached_property
    def _frozen(self) -> CountedUnits:
        return CountedUnits.from_bytes(_data_of(self.frozen))

    def __getstate__(self) -> dict[str, Any]:
        """Leaves out what each worker reads for itself, such as the key."""
        return {name: getattr(self, name) for name in self.__dataclass_fields__}


def _data_of(path: str) -> bytes:
    with open_raw(path) as stream:
        return stream.read()


# --- What one release is, as its stages and its driver need to know; all of it pickles. -----------


# It is counted with the key of the deployment.
_SKETCH = "case sketch"


@dataclass(frozen=True, kw_only=True)
class ReleaseRun(MethodRun):
    """The steps of a method for a release, which also writes the sketch of its cases; it pickles.

    Attributes:
        sketch: Where the sketch of the cases goes; None: none is made.
        check_open: Called before the release appears; raises if it was given up meanwhile. None:
            there is no such check, but giving a release up also deletes its key.
        signer: Where the key is that signs the manifest; None: nobody signs.
        operator_folder: Where workers put their findings in the data; None: into their logs.
    """

    key: KeyReference
    sketch: SketchFile | None = None
    check_open: Callable[[], None] | None = None
    signer: SigningReference | None = None
    operator_folder: str | None = None

    def __post_init__(self) -> None:
        """Has the first round count the sketch as well, if one is made."""
        if self.sketch is not None:
            object.__setattr__(self, "beside", {_SKETCH: CaseSketch})

    @property
    def by_individual(self) -> bool:
        """Whether the cases of an individual must meet in one batch, to be bounded together."""
        return self.method.bounds(self.params).max_cases_per_individual is not None

    @property
    def columns(self) -> list[TraceBatch]:
        """A batch without cases that tells the attributes of the released log, if it has any."""
        carried = self.method.released_columns(self.params)
        if not carried:
            return []
        from tracecloak.schemas.published.rows import no_traces

        return [no_traces(carried)]

    def count(self, round_name: str, traces: TraceBatch, known: Known) -> dict[str, Any]:
        """Returns the statistics of a batch for a round, by name."""
        counted = super().count(round_name, traces, known)
        if self.sketch is not None and INPUT_DIGEST in counted:
            counted[_SKETCH] = CaseSketch.from_traces(traces, self._deployment_key)
        return counted

    def decide(self, round_name: str, totals: Mapping[str, Any], known: Known) -> Decision:
        """Decides a round, and tells the operator what the method foretells of the log."""
        if self.sketch is not None and (sketch := totals.get(_SKETCH)) is not None:
            self.sketch.write(sketch, self._deployment_key)
        if not known.decisions and self.method.foretells(self.params):
            with kept_on_worker(self.operator_folder):
                for sentence in self.method.foretold(totals["variants"], self.params):
                    _OPERATOR.warning("%s: %s", self.method.name, sentence)
        decision = super().decide(round_name, totals, known)
        _LOG.info("decided: %s", round_name)
        return decision

    @cached_property
    def _deployment_key(self) -> ReleaseKey:
        assert self.sketch is not None  # which alone needs it
        return self.sketch.key.resolve()


@dataclass(frozen=True)
class Target:
    """The release that is written, and where.

    Attributes:
        run: What is released.
        folder: Where it is built.
        manifest: The manifest, still without what came out.
        formats: Forms of the released log.
        n_parts: Parts of the released log.
        shares_scripts: Whether its page shares its scripts with those of other releases.
    """

    run: ReleaseRun
    folder: ReleaseFolder
    manifest: ReleaseManifest
    formats: tuple[str, ...]
    n_parts: int
    shares_scripts: bool = False

    @property
    def exports(self) -> list[str]:
        """The forms that are made from the parts."""
        return [kind for kind in self.formats if kind != PARTS]


@dataclass(frozen=True)
class Job:
    """All that a driver is given.

    Attributes:
        source: What is read.
        dead_letter: Where malformed records are listed.
        target: What is written of it.
        n_shards: Shards of cases.
        part: Which cases count, of a release of a window; None: all do.
        memory_bytes: How much memory a run in this process may take; None: as it judges.
        n_workers: How many threads such a run has; None: as it judges.
    """

    source: EventSource
    dead_letter: DeadLetter
    target: Target
    n_shards: int
    part: WindowPart | None = None
    memory_bytes: int | None = None
    n_workers: int | None = None


# --- The commit: statement and page are written, the promise is checked, and the release appears. -


def commit(
    target: Target,
    parts: Sequence[OutputFile],
    exports: Sequence[OutputFile],
    products: Products,
    log: LogCounts | None,
) -> None:
    """Commits the written files; a bundle that runs again finds the release and does nothing.

    The products, the statement and the page are written here, as they say what came out.

    Args:
        target: Where the files are, and what is released.
        parts: The parts of the log, which are written.
        exports: What was made from the parts.
        products: What is released beside the log.
        log: What was counted on the released log; None where there is none.

    Raises:
        UsageError: The release was given up meanwhile; nothing is committed.
        RetryLater: A release of another key is there; nothing is committed.
        GuaranteeError: What is promised of the log does not hold of its parts as written; nothing
            is committed.
    """
    folder, run = target.folder, target.run
    if folder.is_committed_with(run.key.fingerprint):
        return
    run.key.resolve()  # not there any more if somebody gave the release up meanwhile
    # The writers are loaded once there is something to write.
    from tracecloak.transforms.publish.products import products_of_log
    from tracecloak.transforms.publish.release_files import (
        log_graph_json,
        read_log,
        write_products,
        write_report,
    )
    from tracecloak.transforms.publish.statement import publishable_statement

    method = run.method
    if method.verifies:
        try:
            method.verify(read_log(folder, len(parts)), run.params)
        except GuaranteeError as error:
            raise GuaranteeError(
                f"the log as written breaks the promise of {method.name}: {error}; please report it"
            ) from error
        _LOG.info("verified the log as written")
    if PARTS not in target.formats:  # only the forms made from them are released
        folder.remove([part.path for part in parts])
        parts = ()
    held = products.held
    following = products_of_log(products.by_name, log)
    others = write_products(folder, target.manifest, products)
    if log is not None:
        body = json.dumps(log_graph_json(log.graph, log.names), indent=1, ensure_ascii=False)
        others += [folder.write(DFG_NAME, body.encode()), *exports]
    others += write_products(folder, target.manifest, Products(following))
    products = Products({**products.by_name, **following})
    came_out = held if log is None else log.came_out.beside(held)
    whole = replace(target.manifest, came_out=came_out)
    statement = publishable_statement(whole, method.has_error_bars).encode()
    others.append(folder.write(STATEMENT_NAME, statement))
    outputs = [*parts, *others]
    outputs.append(write_report(folder, whole, outputs, products, log, target.shares_scripts))
    if run.check_open is not None:
        run.check_open()
    sign = None if run.signer is None else run.signer.sign
    folder.commit(whole.to_json(outputs, method.verifies), sign)
    _LOG.info("committed release %s", folder.release_id)
