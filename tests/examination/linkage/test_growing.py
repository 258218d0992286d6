"""Attacks across releases of a growing log: plain Python, what really was, and the command.

Candidates that are left across two releases, against an enumeration of all assignments.
"""

from __future__ import annotations

import itertools
import json
from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.support import received
from tests.support.correspondence_naive import best_of_all
from tests.support.keys import randomness
from tests.support.releasing import csv_log, tracecloak
from tests.support.tlkc_logs import HOUR_US, traces_with
from tracecloak.examination.linkage.growing import Correspondences, attack_pairs
from tracecloak.examination.linkage.knowledge import Settings
from tracecloak.examination.linkage.logs import Making, ReleasedLog, Supposed, making_of
from tracecloak.examination.linkage.pair_of_releases import Classes, left, pairs_of
from tracecloak.schemas.errors import UsageError
from tracecloak.schemas.events.traces import TraceBatch


def is_below(above: int, own: int, parents: Sequence[int]) -> bool:
    while own >= 0:
        if own == above:
            return True
        own = parents[own]
    return False


def records(numbers: Sequence[int], found: Sequence[int]) -> list[tuple[int, bool]]:
    """Each record's class, and whether it matches; the first ones of a class do."""
    return [(c, i < found[c]) for c, n in enumerate(numbers) for i in range(n)]


@st.composite
def small_classes(draw: st.DrawFn) -> tuple[Classes, list[int], list[int]]:
    n = draw(st.integers(1, 4))
    parents = [draw(st.integers(-1, c - 1)) for c in range(n)]
    earlier = [draw(st.integers(0, 2)) for _ in range(n)]
    later = [draw(st.integers(0, 3)) for _ in range(n)]
    assume(sum(earlier) <= 4 and sum(later) <= 6)
    found = [[draw(st.integers(0, own)) for own in numbers] for numbers in (earlier, later)]
    who = draw(st.sampled_from(["all", "roots", "none"]))
    vanishing = [who == "all" or (who == "roots" and parent < 0) for parent in parents]
    arrays = [np.array(own) for own in (parents, earlier, later, vanishing)]
    return Classes(*arrays), found[0], found[1]


@settings(deadline=None, max_examples=80)
@given(small_classes())
def test_what_is_left_is_the_most_of_all_assignments(
    case: tuple[Classes, list[int], list[int]],
) -> None:
    classes, known, sought = case
    parents = classes.parents.tolist()
    earlier = records(classes.earlier.tolist(), known)
    later = records(classes.later.tolist(), sought)
    expected = best_of_all(
        [own[1] for own in earlier],
        [own[1] for own in later],
        lambda i, j: is_below(earlier[i][0], later[j][0], parents),
        lambda i: bool(classes.may_vanish[earlier[i][0]]),
    )
    pieces = [np.array(own).reshape(-1, 1) for own in (known, sought)]
    if expected is None:
        with pytest.raises(UsageError, match="has no counterpart in the later one"):
            left(classes, *pieces)
        return
    counted = left(classes, *pieces)
    assert (counted.both[0], counted.new[0], counted.either[0]) == expected


@settings(deadline=None, max_examples=60)
@given(st.data())
def test_classes_by_sensitive_values_have_the_crack_sizes_of_the_paper(data: st.DataObject) -> None:
    """Fung et al., the lemmas on F-, C- and B-attacks, summed over sensitive values."""
    n = data.draw(st.integers(1, 4))
    later = [data.draw(st.integers(0, 9)) for _ in range(n)]
    earlier = [data.draw(st.integers(0, own)) for own in later]
    known = [data.draw(st.integers(0, own)) for own in earlier]
    sought = [data.draw(st.integers(0, own)) for own in later]
    classes = Classes(np.full(n, -1), np.array(earlier), np.array(later), np.zeros(n, bool))
    counted = left(classes, *(np.array(own).reshape(-1, 1) for own in (known, sought)))
    each = list(zip(earlier, later, known, sought, strict=True))
    forward = sum(known) - sum(g1 - min(g1, g2) for _, _, g1, g2 in each)
    cross = sum(sought) - sum(g2 - min(g1, g2) for _, _, g1, g2 in each)
    assert counted.both[0] == forward == cross
    backward = sum(sought) - sum(max(0, g1 - (g2 - own)) for g1, g2, _, own in each)
    assert counted.new[0] == backward


def test_an_example_in_the_manner_of_the_paper() -> None:
    """Five lawyers of Europe in the first release, ten professionals in the second.

    The first release has three with flu and two with diabetes; all of them may be Alice, a lawyer
    of France who is in both. The second has six professionals of France, four with flu and two with
    diabetes, and elsewhere one with flu and three with diabetes. Of the four with flu three have a
    counterpart at most, so Alice is among 5 and not among 6. Bob is of France, too, and new. The
    three with flu of the first release are among the five of the second, of which one is elsewhere:
    two at least are of France, so 4 of 6 are left.
    """
    classes = Classes(np.array([-1, -1]), np.array([3, 2]), np.array([5, 5]), np.zeros(2, bool))
    counted = left(classes, np.array([[3], [2]]), np.array([[4], [2]]))
    assert counted.both.tolist() == [5]
    assert counted.new.tolist() == [4]
    # Who does not know whether Alice is new has all six.
    assert counted.either.tolist() == [6]


def test_a_case_that_goes_on_takes_the_place_of_those_below_it() -> None:
    """A B goes on as A B C or A B D; the one that showed A B C already needs the first itself."""
    parents = np.array([-1, 0, 0])
    classes = Classes(parents, np.array([1, 1, 0]), np.array([0, 1, 1]), np.zeros(3, bool))
    # Known of the victim is A, in both releases: two, and two.
    everything = left(classes, np.array([[1], [1], [0]]), np.array([[0], [1], [1]]))
    assert everything.both.tolist() == [2]
    # Known is that it had no C at first and is A B C now: nobody can be both.
    nobody = left(classes, np.array([[1], [0], [0]]), np.array([[0], [1], [0]]))
    assert nobody.both.tolist() == [0]
    assert nobody.new.tolist() == [0]


def test_cases_may_vanish_everywhere_or_at_roots() -> None:
    with pytest.raises(ValueError, match="for all classes or for roots alone"):
        Classes(np.array([-1, 0]), np.ones(2), np.ones(2), np.array([False, True]))
    none: Iterator[np.ndarray] = (np.zeros(0, np.int64) for _ in range(3))
    empty = Classes(*none, np.zeros(0, bool))
    assert left(empty, np.zeros((0, 2), int), np.zeros((0, 2), int)).both.tolist() == [0, 0]


VALUE = "case:value"
Step = tuple[str, int]  # activity and hour
Log = dict[str, list[Step]]
PLAIN = Settings(sizes=(1, 2))


def traces(log: Log, values: Mapping[str, str | None]) -> TraceBatch:
    return traces_with(
        {
            case: (
                [(activity, None, hour * HOUR_US) for activity, hour in steps],
                {VALUE: values[case]},
            )
            for case, steps in log.items()
        }
    )


# --- Releases of a growing log, made as is supposed -----------------------------------------------


def suppress(log: Log, making: Making, hidden: frozenset[str], times: bool = True) -> Log:
    """Releases a log: what is hidden goes as the making says, and times count from the first."""
    made: Log = {}
    variants = Counter(tuple(a for a, _ in steps) for steps in log.values())
    for case, steps in log.items():
        if making.suppressed == "cases":
            kept = steps if variants[tuple(a for a, _ in steps)] > 1 else []
        elif making.suppressed == "repetitions":
            seen: set[str] = set()
            kept = [
                step
                for step in steps
                if step[0] not in hidden or not (step[0] in seen or seen.add(step[0]))  # type: ignore[func-returns-value]
            ]
        else:
            kept = [step for step in steps if step[0] not in hidden]
        if kept:
            made[case] = [(activity, hour - kept[0][1]) for activity, hour in kept]
    return made


@dataclass(frozen=True)
class World:
    """A growing log and its releases; equal names of cases are what nobody else knows."""

    before: Log
    after: Log
    earlier: Log
    later: Log
    values: Mapping[str, str | None]
    supposed: Supposed

    def attacked(self, k: int = 2) -> list[Correspondences]:
        names = (VALUE,)
        makings = [
            replace(made, sensitive=dict.fromkeys(names, ""))
            for made in (self.supposed.earlier, self.supposed.later)
        ]
        released = [
            ReleasedLog(name, traces(log, self.values))
            for name, log in (("one", self.earlier), ("two", self.later))
        ]
        logs = [traces(log, self.values) for log in (self.before, self.after)]
        pairs = pairs_of(released, logs, makings, self.supposed.grows)
        [found] = attack_pairs(pairs, randomness(), PLAIN, k)
        assert found.n_rewritten == 0
        return list(found.attacks)


MAKINGS = [
    ("elements", "elements"),
    ("repetitions", "elements"),
    ("cases", "cases"),
    ("elements", "cases"),
    ("cases", "elements"),
    ("anything", "elements"),
]


@st.composite
def worlds(draw: st.DrawFn, grows: bool, max_cases: int = 5) -> World:
    step = st.tuples(st.sampled_from("ABC"), st.integers(0, 1))
    before, after, values = {}, {}, {}
    for number in range(draw(st.integers(2, max_cases))):
        steps = draw(st.lists(step, min_size=1, max_size=4))
        hours = list(itertools.accumulate(gap for _, gap in steps))
        whole = [(activity, hour) for (activity, _), hour in zip(steps, hours, strict=True)]
        case = f"c{number}"
        after[case] = whole
        first = draw(st.integers(0, len(whole)) if grows else st.sampled_from([0, len(whole)]))
        if first:
            before[case] = whole[:first]
        values[case] = draw(st.sampled_from(["x", "y"]))
    assume(before)
    kinds = draw(st.sampled_from(MAKINGS))
    unit = draw(st.sampled_from(["hours", None]))
    makings = [Making(kind, time_unit=unit) for kind in kinds]
    hidden = [draw(st.frozensets(st.sampled_from("ABC"), max_size=2)) for _ in kinds]
    earlier = suppress(before, makings[0], hidden[0])
    later = suppress(after, makings[1], hidden[1])
    assume(earlier and later)
    return World(before, after, earlier, later, values, Supposed(*makings, grows))


# --- What really was ------------------------------------------------------------------------------


def row_of(steps: Sequence[Step], kind: str, common: set[str] | None) -> list[Hashable]:
    """The canonical row: a piece is known of a case if it is a subsequence of that."""
    names = [activity for activity, _ in steps]
    if kind == "set":
        return sorted(set(names))
    if kind == "multiset":
        return sorted(names)
    if kind == "sequence":
        return list(names)
    first = next((i for i, a in enumerate(names) if common is None or a in common), len(names))
    return [(activity, hour - steps[first][1]) for activity, hour in steps[first:]]


def has(row: Sequence[Hashable], piece: Sequence[Hashable]) -> bool:
    rest = iter(row)
    return all(element in rest for element in piece)


def firsts(log: Log) -> Log:
    return {
        case: [step for i, step in enumerate(steps) if step[0] not in {a for a, _ in steps[:i]}]
        for case, steps in log.items()
    }


class Naive:
    """What an attack finds, with all assignments written out."""

    def __init__(self, world: World) -> None:
        self.supposed = world.supposed
        logs = [world.before, world.after, world.earlier, world.later]
        is_traced = self.supposed.is_traced
        if is_traced and self.supposed.first_only:
            logs = [firsts(log) for log in logs]
        self.before, self.after, self.earlier, self.later = logs
        everything = {a for log in logs for steps in log.values() for a, _ in steps}
        self.shown = []
        for made, log in zip((self.supposed.earlier, self.supposed.later), logs[2:], strict=True):
            shown = {a for steps in log.values() for a, _ in steps}
            self.shown.append(everything if made.suppressed == "cases" else shown)
        self.common = self.shown[0] & self.shown[1]
        self.values = world.values
        self.is_traced = is_traced
        self.names = list(self.earlier), list(self.later)

    def reduced(self, steps: Sequence[Step]) -> list[Hashable]:
        own = [step for step in steps if step[0] in self.common]
        if self.supposed.time_unit is None:
            return [activity for activity, _ in own]
        return [(activity, hour - own[0][1]) for activity, hour in own]

    def can_be(self, i: int, j: int) -> bool:
        one, other = self.names[0][i], self.names[1][j]
        if self.values[one] != self.values[other]:
            return False
        if not self.is_traced:
            return True
        begin, whole = self.reduced(self.earlier[one]), self.reduced(self.later[other])
        return begin == (whole[: len(begin)] if self.supposed.grows else whole)

    def may_vanish(self, i: int) -> bool:
        if not self.is_traced or self.supposed.later.suppressed == "cases":
            return True
        return not any(a in self.shown[1] for a, _ in self.earlier[self.names[0][i]])

    def matching(self, piece: Sequence[Any], kind: str) -> tuple[list[bool], list[bool]]:
        found = []
        common = self.common if self.is_traced else None
        for log, shown in zip((self.earlier, self.later), self.shown, strict=True):
            known = [e for e in piece if (e[0] if kind == "relative" else e) in shown]
            found.append([has(row_of(steps, kind, common), known) for steps in log.values()])
        return found[0], found[1]

    def attacks(self, kind: str, size: int) -> dict[str, dict[tuple[int, int], float]]:
        """By correspondence the shares of candidates alone and across."""
        known = self.shown[0] | self.shown[1]
        found: dict[str, dict[tuple[int, int], float]] = {}
        new = {c: s for c, s in self.after.items() if c not in self.before}
        logs = [(0, self.before), (1, new), *([] if self.supposed.grows else [(2, self.after)])]
        for who, log in logs:
            rows = [
                row_of(
                    [s for s in steps if s[0] in known],
                    kind,
                    self.common if self.is_traced else None,
                )
                for steps in log.values()
            ]
            rows = [row for row in rows if row]
            for row in rows:
                pieces = list(itertools.combinations(row, min(size, len(row))))
                for piece in pieces:
                    share = 1 / len(pieces) / len(rows)
                    earlier, later = self.matching(piece, kind)
                    best = best_of_all(earlier, later, self.can_be, self.may_vanish)
                    assert best is not None
                    names = [["forward", "cross"], ["backward"], ["either"]][who]
                    for name in names:
                        alone = sum(earlier if name == "forward" else later)
                        shares = found.setdefault(name, {})
                        shares[alone, best[who]] = shares.get((alone, best[who]), 0) + share
        return found


@settings(deadline=None, max_examples=12)
@given(st.booleans().flatmap(worlds))
def test_attacks_are_those_of_plain_python(world: World) -> None:
    naive = Naive(world)
    found = world.attacked()
    assert {own.attack for own in found} >= {"A1", "A2", "A3"}
    for attack, kind in (("A1", "set"), ("A2", "multiset"), ("A3", "sequence"), ("AT", "relative")):
        own = [f for f in found if f.attack == attack]
        if kind == "relative" and world.supposed.is_traced and world.supposed.time_unit is None:
            assert not own
            continue
        for size in (1, 2):
            expected = naive.attacks(kind, size)
            got = {f.correspondence: f for f in own if f.size == size}
            assert got.keys() == expected.keys()
            for name, shares in expected.items():
                check(got[name], shares)


def check(found: Correspondences, shares: Mapping[tuple[int, int], float]) -> None:
    def share(of: Any) -> Any:
        return pytest.approx(sum(s for (alone, across), s in shares.items() if of(alone, across)))

    assert found.is_exact and found.k == 2
    assert found.alone.at_worst == min((n for n, _ in shares if n), default=None)
    assert found.across.at_worst == min((n for _, n in shares if n), default=None)
    assert found.alone.below_k.value == share(lambda alone, across: alone == 1)
    assert found.across.below_k.value == share(lambda alone, across: across == 1)
    assert found.reduced.value == share(lambda alone, across: across < alone)
    assert found.falls.value == share(lambda alone, across: alone >= 2 > across)
    assert found.nobody.value == share(lambda alone, across: across == 0)


@settings(deadline=None, max_examples=40)
@given(st.booleans().flatmap(worlds))
def test_nobody_is_excluded_who_can_be_the_victim(world: World) -> None:
    """The true assignment is one of those that are looked at, so it leaves no more than the best.

    And the victim is among what it leaves, if what is supposed of the releases holds.
    """
    naive = Naive(world)
    truth = {
        i: naive.names[1].index(case)
        for i, case in enumerate(naive.names[0])
        if case in naive.names[1]
    }
    for i, case in enumerate(naive.names[0]):
        assert naive.can_be(i, truth[i]) if i in truth else naive.may_vanish(i), case
    if not naive.is_traced:
        return  # what is known may be suppressed in the victim's case alone
    known, old = naive.shown[0] | naive.shown[1], {j: i for i, j in truth.items()}
    for kind in ("set", "multiset", "sequence", "relative"):
        if kind == "relative" and world.supposed.time_unit is None:
            continue

        def pieces(steps: Sequence[Step], kind: str = kind) -> list[tuple[Hashable, ...]]:
            row = row_of([s for s in steps if s[0] in known], kind, naive.common)
            return [piece for n in (1, 2) for piece in itertools.combinations(row, n)]

        for i, j in truth.items():
            for piece in pieces(naive.before[naive.names[0][i]]):
                earlier, later = naive.matching(piece, kind)
                assert earlier[i] and later[j]  # forward and cross
        for j, case in enumerate(naive.names[1]):
            for piece in pieces(naive.after[case]):
                earlier, later = naive.matching(piece, kind)
                assert later[j]  # backward, if it is new
                if j in old and not world.supposed.grows:
                    assert earlier[old[j]]  # either


def test_what_is_known_of_the_releases_is_read_from_their_manifests(tmp_path: Path) -> None:
    release = received.made(tmp_path, "pretsa", 2)

    def made(**params: Any) -> Making:
        method = params.pop("method", "tlkc")
        kind = params.pop("kind", "syntactic")

        def edit(body: Any) -> None:
            body |= {"method": method, "params": params}
            body["guarantee"] |= {"kind": kind, "epsilon": 1, "delta": 0}

        received.edited(release, edit)
        return making_of(str(release), Making())

    by_kind = {
        kind: made(k=7, knowledge_kind=kind, time_unit="days").suppressed
        for kind in ("set", "sequence", "multiset", "relative")
    }
    assert list(by_kind.values()) == ["elements", "elements", "repetitions", "anything"]
    whole = made(method="k-anonymous-variants", k=3, time_unit="hours")
    assert (whole.suppressed, whole.k, whole.time_unit) == ("cases", 3, "hours")
    assert made(method="pretsa", k=3).suppressed == "anything"
    assert made(method="k-anonymous-subtraces", k=3).suppressed == "anything"
    other = made(knowledge_kind="set", perspective="resource", resources={"org:group": {}})
    assert (other.suppressed, other.perspective) == ("anything", "activity")
    with pytest.raises(UsageError, match="is of private-log, which draws noise"):
        made(method="private-log", kind="rigorous")
    assert making_of(str(tmp_path / "log.csv"), Making("cases")) == Making("cases")


def test_what_differs_between_releases_is_not_compared() -> None:
    days, hours = (Making(time_unit=unit) for unit in ("days", "hours"))
    assert Supposed(hours, hours).time_unit == "hours"
    assert Supposed(days, hours).time_unit is None
    declared = replace(hours, sensitive={"case:a": "1", "case:b": "1"})
    other = replace(hours, sensitive={"case:a": "1", "case:b": "2"})
    assert Supposed(declared, other).sensitive == ("case:a",)
    pairs = [replace(hours, perspective="resource", resources=r) for r in ("R1", "R2")]
    assert Supposed(pairs[0], pairs[0]).is_traced
    assert not Supposed(*pairs).is_traced
    assert "exclude nothing for certain" in next(iter(Supposed(*pairs).sentences()))


def test_releases_that_contradict_what_is_supposed_are_told() -> None:
    before = {"a": [("A", 0), ("B", 1)]}
    after = {"a": [("A", 0), ("B", 1), ("A", 2)]}
    making = Making()
    world = World(
        before, after, before, {"z": [("B", 0), ("A", 0)]}, {"a": "x", "z": "x"},
        Supposed(making, making),
    )  # fmt: skip
    with pytest.raises(UsageError, match="suppose less with --suppressed anything"):
        world.attacked()
    shrunk = World({"b": [("A", 0)]}, after, before, after, {"a": "x", "b": "x"}, world.supposed)
    with pytest.raises(UsageError, match="lacks cases of the log of an earlier one"):
        shrunk.attacked()


def test_late_events_are_told() -> None:
    released = [ReleasedLog(name, traces({"a": [("A", 0)]}, {"a": "x"})) for name in "12"]
    before = {"a": [("A", 0), ("C", 2)], "b": [("A", 0)], "c": [("A", 0), ("B", 1)]}
    after = {"a": [("A", 0), ("B", 1), ("C", 2)], "b": [("A", 0)], "c": [("A", 0)]}
    logs = [traces(log, dict.fromkeys("abc", "x")) for log in (before, after)]
    pairs = pairs_of(released, logs, [Making(), Making()], True)
    [found] = attack_pairs(pairs, randomness(), Settings(sizes=(1,)))
    assert found.n_rewritten == 2
    assert {own.k for own in found.attacks} == {2}
    assert found.without_times and not any(own.attack == "AT" for own in found.attacks)


# --- The command ----------------------------------------------------------------------------------


@pytest.fixture
def logs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """A log, and what it grew to: new cases, and old ones that went on."""
    monkeypatch.setenv("TRACECLOAK_KEY_STORE", str(tmp_path / "keys"))
    stamps = [f"2026-01-01T{hour:02}:00:00Z" for hour in range(24)]
    ends = ["B C", "B D", "B", "C D"]
    rows = [
        (f"c{case}", activity, stamps[hour])
        for case in range(24)
        for hour, activity in enumerate(["A", *ends[case % 4].split(), *("E" * (case % 3 == 0))])
    ]
    first = [row for row in rows if int(row[0][1:]) < 14 and row[1] != "E"]
    return [csv_log(tmp_path / f"{n}.csv", own) for n, own in (("one", first), ("two", rows))]


def released(tmp_path: Path, log: Path, name: str, *flags: object) -> Path:
    assert tracecloak(
        "release", "--log", log, "--output", tmp_path / name, "--release_id", "r",
        "--runner", "InMemory", *flags,
    ) == 0  # fmt: skip
    return tmp_path / name / "run_id=r"


def listed(paths: list[Path]) -> str:
    return ",".join(map(str, paths))


def test_two_releases_of_a_growing_log_are_attacked(
    tmp_path: Path, logs: list[Path], capsys: pytest.CaptureFixture[str]
) -> None:
    tlkc = ("--method", "tlkc", "--k", 3, "--knowledge_kind", "set")
    folders = [released(tmp_path, log, f"r{n}", *tlkc) for n, log in enumerate(logs)]
    capsys.readouterr()
    report = tmp_path / "report.json"
    assert tracecloak(
        "attack", "linkage", listed(folders), "--growing", "--log", listed(logs),
        "--sizes", "1,2", "--report", report,
    ) == 0  # fmt: skip
    printed = capsys.readouterr().out
    assert "With the other release" in printed and "fall below 3 by that." in printed
    assert "begins with the same elements that both releases show" in printed
    assert "Who does not know whether a case is new in the later release excludes" in printed
    found = json.loads(report.read_text())
    assert found["publishable"] is False
    assert [own["cases_of_original"] for own in found["releases"]] == [14, 24]
    [pair] = found["pairs"]
    assert pair["times_compared"] == "hours" and pair["events_exclude"]
    assert pair["cases_rewritten"] == 0
    names = {own["correspondence"] for own in pair["attacks"]}
    assert names == {"forward", "cross", "backward"}
    assert all(own["nobody_left"]["value"] == 0 for own in pair["attacks"])
    promised = [own for own in pair["attacks"] if own["attack"] == "A1"]
    assert min(own["alone"]["at_worst"] for own in promised) >= 3
    assert min(own["across"]["at_worst"] for own in promised) < 3
    text = (tmp_path / "report.md").read_text()
    assert text.startswith("INTERNAL") and "| cross | A1: 2 activities as a set | 3 |" in text


def test_files_are_attacked_as_is_supposed_of_them(
    tmp_path: Path, logs: list[Path], capsys: pytest.CaptureFixture[str]
) -> None:
    report = tmp_path / "report.json"
    given_flags = (
        "attack", "linkage", listed(logs), "--growing", "--log", listed(logs),
        "--report", report, "--sizes", "1",
    )  # fmt: skip
    assert tracecloak(*given_flags, "--suppressed", "anything", "--k", 5) == 0
    printed = capsys.readouterr().out
    assert "So nothing is excluded here. That proves nothing" in printed
    [pair] = json.loads(report.read_text())["pairs"]
    assert not pair["events_exclude"] and {own["k"] for own in pair["attacks"]} == {5}
    assert tracecloak(*given_flags, "--closed") == 0
    printed = capsys.readouterr().out
    assert "has exactly the same elements that both releases show." in printed
    assert "\neither     A" in printed
    backwards = (listed(logs[::-1]), "--growing", "--log", listed(logs[::-1]))
    assert tracecloak("attack", "linkage", *backwards, *given_flags[-4:]) == 2
    assert "lacks cases of the log of an earlier one" in capsys.readouterr().err


def test_wrong_flags_are_told(
    tmp_path: Path, logs: list[Path], capsys: pytest.CaptureFixture[str]
) -> None:
    begin, both = ("attack", "linkage", "--report", tmp_path / "r.json", "--log"), listed(logs)
    for flags, message in (
        ((logs[0], logs[0], "--growing"), "--growing needs two or more"),
        ((logs[0], logs[0], "--closed"), "it needs --growing"),
        ((both, both), "give --growing if each is the log of one release"),
        ((both, listed([*logs, logs[0]]), "--growing"), "2 logs for 3 releases"),
        ((both, both, "--growing", "--k", 0), "k must be at least 1, got 0"),
    ):
        assert tracecloak(*begin, *flags) == 2
        assert message in capsys.readouterr().err
