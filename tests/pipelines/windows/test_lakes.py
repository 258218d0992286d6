"""Every unit influences at most what is paid, whatever happens to the lake and in whatever order.

Small lakes are enumerated: what is released when, how the data looks then, and where a run is cut
off. Each world is played twice, with one unit's whole history and without it. What COUNT is given
may differ in releases that the ledger charges with the unit's share, and in no other.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.ledgers import in_memory
from tests.support.tiers import few_examples
from tracecloak.pipelines.configuration.config import ReleaseConfig
from tracecloak.pipelines.configuration.plan import resolve
from tracecloak.pipelines.keys.key_store import KeyStore
from tracecloak.pipelines.ledger import case_registry
from tracecloak.pipelines.ledger.case_registry import CaseRegistry
from tracecloak.pipelines.ledger.entries import Reservation, WindowCharge
from tracecloak.pipelines.ledger.officers_ledger import OfficersLedger as Ledger
from tracecloak.pipelines.release.window import released_window
from tracecloak.schemas.events.events import ActivityVocabulary
from tracecloak.schemas.events.traces import TraceBatch
from tracecloak.transforms.batch.job import WindowPart

ORIGIN_US = 1_767_225_600_000_000  # 2026-01-01T00:00Z
SCHEDULE = {
    "dataset": "lake", "origin": "2026-01-01", "period": "hour", "time_zone": "UTC",
    "by": "close", "gap": "10m", "max_lifetime": "50m", "release_delay": "1h", "horizon": 3,
}  # fmt: skip

# A case: minutes since the origin at which something happened, in order.
Case = tuple[int, ...]
# A lake: cases by (individual, id), as they are at one time.
Lake = Mapping[tuple[str, str], Case]
# What was given to COUNT: events by case.
Counted = Mapping[tuple[str, str], Case]


@dataclass(frozen=True)
class Step:
    """One try to release a window.

    Attributes:
        window: Its number.
        name: Of the release; another name is another charge.
        lake: Which state of the lake it reads.
        ends: Where it is cut off: after `claim`, after `draw`, or `never`.
        forfeits: Whether it is given up after that.
    """

    window: int
    name: str
    lake: int
    ends: str = "never"
    forfeits: bool = False


class World:
    """A ledger, a key store and a book of one operator."""

    def __init__(self, folder: Path, method: Mapping[str, object], max_cases: int | None) -> None:
        self.folder, self._store = folder, KeyStore(folder / "keys")
        self._store.touch("ledger.db")
        self._ledger = Ledger(self._store.ledger_url, store=self._store, new=True)
        self._output = str(folder / "out")
        folder.mkdir(parents=True, exist_ok=True)
        key = folder / "book.key"
        key.write_text("b0" * 32)  # which cases of an individual are chosen depends on it
        columns = {} if max_cases is None else {"individual_id": "person"}
        cap = {} if max_cases is None else {"max_cases_per_individual": max_cases}
        self._plan = resolve(ReleaseConfig.model_validate({
            "log": ["lake"], "output": self._output, "key_store": str(folder / "keys"),
            "schedule": SCHEDULE, "book_key": f"file:{key}", "release_id": "r", "columns": columns,
            "method": method["method"],
            "params": {**{k: v for k, v in method.items() if k != "method"}, **cap},
        }))  # fmt: skip
        self._keys: dict[str, str] = {}
        self._n_keys = 0

    def _window(self, number: int) -> tuple[WindowCharge, WindowPart, CaseRegistry]:
        schedule = self._plan.schedule
        assert schedule is not None
        plan = self._plan.of_window(schedule.numbered(number))
        return released_window(plan, self._store, self._ledger, str(self.folder / f"w{number}"))

    def play(self, step: Step, lakes: Sequence[Lake]) -> Counted | None:
        """Tries a release; returns what COUNT was given by a run that was to draw, or None."""
        charge, part, book = self._window(step.window)
        release_id = f"{step.name}-{part.window.label}"
        traces = traces_of(lakes[step.lake], part)
        if release_id not in self._keys:
            self._n_keys += 1
            self._keys[release_id] = f"{self._n_keys:016x}"
        key = self._keys[release_id]
        self._ledger.reserve(Reservation(
            account="default", release_id=release_id, output=self._output, epsilon=Fraction(1),
            delta=Fraction(1, 10**6), unit="individual" if part.by_individual else "case",
            adjacency="add_remove", method="m", spends=(), config_digest="d", key_fingerprint=key,
            window=charge,
        ))  # fmt: skip
        Path(part.frozen).parent.mkdir(parents=True, exist_ok=True)
        keyed_release = self._output, release_id, key
        claimed = book.frozen(*keyed_release) or book.claim(*keyed_release, part.units(traces))
        Path(part.frozen).write_bytes(claimed.units.to_bytes())
        if step.ends == "claim":
            self._ledger.void(self._output, release_id, key)
            del self._keys[release_id]
            return None
        self._ledger.draw(self._output, release_id, key)
        counted = [batch for batch in [part.counted(traces)] if batch.n_cases]
        if step.forfeits:
            self._ledger.forfeit(self._output, release_id, key, "officer", "test")
            del self._keys[release_id]
        elif step.ends == "never":
            self._ledger.commit(self._output, release_id, key)
        return rows_of(counted)

    @property
    def spent(self) -> Fraction:
        found = self._ledger.balance("default").spent_epsilon
        assert found is not None
        return found


def traces_of(lake: Lake, part: WindowPart) -> TraceBatch:
    """The events of a lake that a window reads, as traces."""
    first, last = part.window.reads_from_us, part.window.reads_until_us
    kept: dict[tuple[str, str], list[int]] = {}
    for case, minutes in sorted(lake.items()):
        times = [ORIGIN_US + 60_000_000 * minute for minute in minutes]
        inside = [time for time in times if first <= time < last]
        if inside:
            kept[case] = inside
    lengths = [len(times) for times in kept.values()]
    return TraceBatch(
        pa.array([case for _, case in kept], pa.string()),
        np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
        np.zeros(sum(lengths), np.int32),
        np.array([time for times in kept.values() for time in times], np.int64),
        ActivityVocabulary.of(["A"]),
        pa.array([person for person, _ in kept], pa.string()) if part.by_individual else None,
    )


def rows_of(batches: Sequence[TraceBatch]) -> Counted:
    """The events of each case, by individual and id."""
    found: dict[tuple[str, str], Case] = {}
    for batch in batches:
        people = ["" for _ in range(batch.n_cases)]
        if batch.individuals is not None:
            people = batch.individuals.to_pylist()
        for number, case in enumerate(batch.case_ids.to_pylist()):
            times = batch.times[batch.offsets[number] : batch.offsets[number + 1]]
            found[people[number], case] = tuple(
                int(minute) for minute in (times - ORIGIN_US) // 60_000_000
            )
    return found


CASES = {"method": "private-dfg", "epsilon": "1", "vocabulary": ("A",)}
# The unit whose whole history is added or removed, and others that are always there.
UNIT = "u"
OTHERS: Sequence[Lake] = (
    {("p", "a"): (5, 9), ("q", "b"): (70,), ("q", "c"): (55, 63)},
    {("p", "a"): (5, 9), ("q", "b"): (70, 75), ("q", "c"): (55,)},
)
# How a case of the unit can look at a time: not there, in one of the windows, begun in one and over
# in the next, and silent for so long that it counts as another case.
LOOKS: tuple[Case, ...] = ((), (5,), (65,), (52, 61), (5, 170))
ENDS = (("never", False), ("claim", False), ("draw", True))


def check(
    folder: Path, lakes: Sequence[Lake], steps: Sequence[Step], max_cases: int | None = None
) -> int:
    """Plays the worlds with and without the unit; returns how often one of its cases counted."""
    without = [{case: at for case, at in lake.items() if UNIT not in case} for lake in lakes]
    one = World(folder / "with", CASES, max_cases)
    other = World(folder / "without", CASES, max_cases)
    windows: dict[tuple[str, str], set[int]] = {}
    n_counted = 0
    for step in steps:
        found, expected = one.play(step, lakes), other.play(step, without)
        assert (found is None) == (expected is None)
        if found is None or expected is None:
            continue
        own = [case for case in found if UNIT in case]
        n_counted += len(own)
        for case in own:
            windows.setdefault(case, set()).add(step.window)
        # What anybody else counts with does not depend on the unit.
        assert {case: at for case, at in found.items() if case not in own} == expected
    assert all(len(of_case) == 1 for of_case in windows.values())
    assert len(windows) <= (max_cases or 1)
    # Each case of an individual costs its share of what is paid for all that it may have.
    assert one.spent == other.spent
    assert Fraction(n_counted, max_cases or 1) <= one.spent
    return n_counted


def lakes_of(*cases: Sequence[Case], by_individual: bool = False) -> list[Lake]:
    """The lake at two times, with the unit's cases as they looked then."""
    made = []
    for number, others in enumerate(OTHERS):
        own = {(UNIT, f"{UNIT}{i}"): looks[number] for i, looks in enumerate(cases)}
        lake = {case: at for case, at in {**others, **own}.items() if at}
        if not by_individual:
            lake = {("", UNIT if p == UNIT else case): at for (p, case), at in lake.items()}
        made.append(lake)
    return made


def steps_of(n_windows: int) -> list[Step]:
    """All first tries of a window: which, of which state of the lake, and how they end."""
    return [
        Step(window, "r", lake, ends, forfeits)
        for window, lake, (ends, forfeits) in itertools.product(range(n_windows), (0, 1), ENDS)
    ]


@pytest.mark.slow
@pytest.mark.parametrize("looks", list(itertools.product(LOOKS, LOOKS)), ids=str)
def test_of_any_two_tries_a_case_counts_in_one_window(looks: tuple[Case, Case]) -> None:
    n_counted = 0
    for first, second in itertools.product(steps_of(3), steps_of(3)):
        second = replace(second, name="again" if first.window == second.window else "r")
        with in_memory() as folder:
            n_counted += check(folder, lakes_of(looks), [first, second])
    assert n_counted > 0 or looks == ((), ())


STEP = st.builds(
    lambda window, lake, ends, name: Step(window, name, lake, *ends),
    st.integers(0, 2), st.integers(0, 1), st.sampled_from(ENDS), st.sampled_from(["r", "again"]),
)  # fmt: skip
TWO_LOOKS = st.tuples(st.sampled_from(LOOKS), st.sampled_from(LOOKS))


def once_each(steps: Sequence[Step]) -> list[Step]:
    """Steps without those that would release again what was released or given up."""
    ended: set[tuple[int, str]] = set()
    kept = []
    for step in steps:
        if (step.window, step.name) not in ended:
            kept.append(step)
        if step.ends != "claim":
            ended.add((step.window, step.name))
    return kept


@few_examples()
@given(TWO_LOOKS, st.lists(STEP, min_size=2, max_size=6))
def test_a_case_counts_in_one_window_whatever_the_order(
    looks: tuple[Case, Case], steps: list[Step]
) -> None:
    with in_memory() as folder:
        check(folder, lakes_of(looks), once_each(steps))


@few_examples()
@given(
    st.lists(TWO_LOOKS, min_size=1, max_size=3),
    st.lists(STEP, min_size=2, max_size=6),
    st.integers(1, 2),
)
def test_of_an_individual_so_many_cases_count_in_all_windows(
    cases: list[tuple[Case, Case]], steps: list[Step], max_cases: int
) -> None:
    with in_memory() as folder:
        check(folder, lakes_of(*cases, by_individual=True), once_each(steps), max_cases)


MOVES = [Step(0, "r", 0), Step(1, "r", 1)]


def test_a_book_that_forgets_is_caught(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(case_registry, "units_to_count", lambda units, *_: units)
    with pytest.raises(AssertionError):
        check(tmp_path, lakes_of(((5,), (65,))), MOVES)


def test_a_book_that_counts_individuals_by_window_is_caught(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = case_registry.units_to_count
    monkeypatch.setattr(
        case_registry, "units_to_count", lambda units, label, _, cap: right(units, label, [], cap)
    )
    lakes = lakes_of(((5,), ()), ((), (65,)), by_individual=True)
    with pytest.raises(AssertionError):
        check(tmp_path, lakes, MOVES, max_cases=1)


def test_a_claimed_case_that_moved_to_another_window_is_not_counted(tmp_path: Path) -> None:
    """As where a run is cut off after its claim, and the next one reads a corrected lake."""
    _, part, _ = World(tmp_path, CASES, None)._window(0)
    before, after = (traces_of(lake, part) for lake in lakes_of(((5,), (52, 61))))
    Path(part.frozen).parent.mkdir(parents=True, exist_ok=True)
    Path(part.frozen).write_bytes(part.units(before).to_bytes())
    counted = [rows_of([part.counted(traces)]) for traces in (before, after)]
    assert [("", UNIT) in rows for rows in counted] == [True, False]
    assert len(counted[1]) == len(counted[0]) - 1 > 0
