"""One window of a schedule: what its release reads, which units it claims, and what it pays for."""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import cast

import apache_beam as beam
from apache_beam.io.filesystems import FileSystems
from apache_beam.options.pipeline_options import PipelineOptions

from tracecloak.anonymizers.contract import in_memory
from tracecloak.anonymizers.contract.counted_units import CountedUnits
from tracecloak.anonymizers.registry import method_named
from tracecloak.pipelines.budget.entries import WindowCharge
from tracecloak.pipelines.budget.key_store import KeyStore
from tracecloak.pipelines.budget.ledger import Ledger
from tracecloak.pipelines.budget.unit_book import UnitBook, scope_of
from tracecloak.pipelines.release.config import ReleaseConfig
from tracecloak.pipelines.release.pipeline import build_units
from tracecloak.pipelines.release.schedule_config import check_composes
from tracecloak.pipelines.release.window_facts import moment
from tracecloak.pipelines.runners.names import is_local
from tracecloak.schemas.errors import RetryLater, UsageError
from tracecloak.schemas.events.tally import ReadTally, TallyOfFile
from tracecloak.schemas.events.traces import TraceBatch
from tracecloak.schemas.events.vocabulary import ActivityVocabulary
from tracecloak.schemas.windows.schedule import Schedule, Window
from tracecloak.transforms.batch.validate import DeadLetter
from tracecloak.transforms.batch.window_part import WindowPart
from tracecloak.transforms.files import absolute, require_file_system, write_anew
from tracecloak.transforms.keys.reference import KeyReference
from tracecloak.transforms.publish.release_folder import ReleaseFolder, remove_folder
from tracecloak.transforms.sources import EventSource

_UNITS = "units"


@dataclass(frozen=True)
class ReleasedWindow:
    """A window that is to be released, and who keeps its book.

    Attributes:
        schedule: The windows.
        window: The one.
        by_individual: Whether the unit of privacy is the individual.
        charge: What the ledger is told of it.
        key: Where the key of the book is.
        book: The book of counted units.
    """

    schedule: Schedule
    window: Window
    by_individual: bool
    charge: WindowCharge
    key: KeyReference
    book: UnitBook

    def part(self, place: str) -> WindowPart:
        """Returns which cases count.

        Args:
            place: Folder that the operator and the workers alone read: the size of a file of units
                tells how many there are.
        """
        # Of each run its own, so that none finds what another one with other input left.
        found = FileSystems.join(place, f"{_UNITS}-{uuid.uuid4().hex[:16]}")
        frozen = FileSystems.join(place, _UNITS)
        return WindowPart(
            self.schedule, self.window, self.key, self.by_individual,
            cast(str, found), cast(str, frozen),
        )  # fmt: skip

    def freeze(self, part: WindowPart, folder: ReleaseFolder, key_fingerprint: str) -> int | None:
        """Puts the frozen set of a charge where the run reads it.

        Returns:
            How many units are left out, as they counted in other windows; None: nothing was claimed
            yet under this key.
        """
        claimed = self.book.frozen(folder.output, folder.release_id, key_fingerprint)
        if claimed is None:
            return None
        write_anew(part.frozen, claimed.units.to_bytes())
        return claimed.n_left_out

    def claim(
        self, units: CountedUnits, part: WindowPart, folder: ReleaseFolder, key_fingerprint: str
    ) -> int:
        """Claims units for the charge, and puts those that may count where the run reads them.

        Returns:
            How many units are left out, as they counted in other windows.

        Raises:
            LedgerError: A file of the book is missing or changed, or the ledger cannot be used.
        """
        claimed = self.book.claim(folder.output, folder.release_id, key_fingerprint, units)
        write_anew(part.frozen, claimed.units.to_bytes())
        return claimed.n_left_out


def released_window(
    config: ReleaseConfig, store: KeyStore, ledger: Ledger
) -> ReleasedWindow | None:
    """Returns the window that a configuration names; None: it names none.

    Raises:
        UsageError: The key of the book is not there, or a promise for each window is none for all.
    """
    schedule, window = config.made_schedule, config.made_window
    if schedule is None or window is None:
        return None
    method, params = method_named(config.method), config.method_params
    cap = method.bounds(params).max_cases_per_individual
    check_composes(config.method, config.guarantee)
    key = _book_key(config, store)
    charge = WindowCharge(_scope(config, schedule, key), window.label, config.windows_add_up)
    place = config.book or store.book_folder
    require_file_system("book", place)
    book = UnitBook(absolute(place), key.resolve(), ledger, cap)
    return ReleasedWindow(schedule, window, cap is not None, charge, key, book)


def known_scope(config: ReleaseConfig, store: KeyStore) -> str | None:
    """Returns the scope that a configuration's windows are charged to; nothing is made for it.

    None: there is no schedule, or no key of a book yet, so that no window was charged.

    Raises:
        UsageError: The key of the book that is named is not there.
    """
    schedule = config.made_schedule
    is_named = (config.book_key or os.environ.get("TRACECLOAK_BOOK_KEY")) is not None
    if schedule is None or not (is_named or store.has_book_key):
        return None
    return _scope(config, schedule, _book_key(config, store))


def _scope(config: ReleaseConfig, schedule: Schedule, key: KeyReference) -> str:
    columns = [config.columns.case_id or "", config.columns.individual_id or ""]
    # Read in another way an identity is another one, which the book does not know.
    columns += [
        f"{name} in whole numbers"
        for name in ("case_id", "individual_id")
        if config.mapping.has_whole_numbers(name)
    ]
    cap = method_named(config.method).bounds(config.method_params).max_cases_per_individual
    fingerprint = key.resolve().fingerprint
    unit = config.guarantee.unit
    return scope_of(schedule.digest, schedule.dataset, unit, columns, cap, fingerprint)


def check_book_key(config: ReleaseConfig) -> None:
    """Makes sure that workers elsewhere are told where the key of the book is.

    Raises:
        UsageError: They are not.
    """
    is_named = (config.book_key or os.environ.get("TRACECLOAK_BOOK_KEY")) is not None
    if config.schedule is not None and not is_named and not is_local(config.runner):
        raise UsageError(
            f"book_key is missing: workers of runner {config.runner} do not see the key of the "
            "book of counted units in this machine's key store; name one that they can read, and "
            "that is never rotated, such as file:gs://BUCKET/keys/book"
        )


def verify_book(config: ReleaseConfig, store: KeyStore, ledger: Ledger) -> int:
    """Compares every file of the book of a configuration's schedule with the ledger.

    Returns:
        How many there are.

    Raises:
        LedgerError: One is missing or was changed, or the ledger cannot be used.
    """
    schedule, scope = config.made_schedule, known_scope(config, store)
    if schedule is None or scope is None:
        return 0
    named = config.model_copy(update={"window": schedule.numbered(0).label})
    window = released_window(named, store, ledger)
    return 0 if window is None else window.book.check(scope, every_file=True)


def check_due(window: Window, now_us: int | None = None) -> None:
    """Makes sure that a window can be released.

    Raises:
        RetryLater: It is not over, or what belongs to it can still come.
    """
    now = time.time_ns() // 1_000 if now_us is None else now_us
    if now < window.due_us:
        raise RetryLater(
            f"window {window.label} is released from {moment(window.due_us)} on: until then what "
            "belongs to it can still come; nothing was read or paid"
        )


def find_units(
    config: ReleaseConfig,
    options: PipelineOptions | None,
    source: EventSource,
    dead_letter: DeadLetter,
    part: WindowPart,
) -> CountedUnits:
    """Reads the log once and returns the units of the window's cases.

    Raises:
        InputSchemaError: The input cannot be read, or too much of it is malformed.
    """
    if options is None:
        return _found_in_memory(config, source, dead_letter, part)
    with beam.Pipeline(options=options) as pipeline:
        build_units(pipeline, source, dead_letter, part, config.shards)
    units = part.found_units()
    remove_folder(part.found)
    return units


def _found_in_memory(
    config: ReleaseConfig, source: EventSource, dead_letter: DeadLetter, part: WindowPart
) -> CountedUnits:
    events, tallies = [], []
    for file in source.files:
        tally = TallyOfFile(file.rank)
        rejects = []
        for batch, rejected in source.read(file, tally):
            events.append(batch)
            rejects.extend([rejected] if rejected.num_rows else [])
        if rejects:
            dead_letter.write(file.rank, rejects)
        tallies.append(tally.result())
    dead_letter.check(ReadTally.merge(tallies))
    traces = in_memory.group_into_traces(events, config.shards, part.by_individual)
    return CountedUnits.merge([part.units(batch) for batch in traces])


def _book_key(config: ReleaseConfig, store: KeyStore) -> KeyReference:
    """Returns where the key of the book is.

    Raises:
        UsageError: Workers elsewhere could not find it.
    """
    named = config.book_key or os.environ.get("TRACECLOAK_BOOK_KEY")
    if named is not None:
        key = KeyReference(named)
        return replace(key, fingerprint=key.resolve().fingerprint)
    check_book_key(config)
    return store.book_key()


def counted_in(part: WindowPart, traces: Sequence[TraceBatch]) -> list[TraceBatch]:
    """Returns the cases of batches that count in a window, in batches of one vocabulary."""
    kept = [found for found in (part.counted(batch) for batch in traces) if found.n_cases]
    vocabulary = ActivityVocabulary.merge([batch.vocabulary for batch in kept])
    return [batch.recode(vocabulary) for batch in kept]
