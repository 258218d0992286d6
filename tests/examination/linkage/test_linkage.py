"""Linkage attacks: the paper's examples, plain Python on small logs, draws against all pieces."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.support.keys import randomness
from tests.support.logs import trace_batch
from tests.support.releasing import hospital_files, tracecloak
from tests.support.tlkc_logs import DISEASE, RESOURCE, table_2, traces_with
from tests.support.tlkc_naive import RESOURCES, VALUES, elements_of, naive, small_logs
from tracecloak.examination.comparison.original import N_KNOWN, SingledOut
from tracecloak.examination.linkage import knowledge
from tracecloak.examination.linkage.knowledge import KnownVictims, LinkedLog, Settings, no_values
from tracecloak.examination.linkage.run import (
    ATTACKS,
    SET_SIZES,
    Linkage,
    Risk,
    link,
    linked,
    sensitive_columns,
)
from tracecloak.examination.measure.behaviour_measures import has_resources
from tracecloak.schemas.arrays.merging import offsets_of
from tracecloak.schemas.errors import UsageError
from tracecloak.schemas.events.traces import TraceBatch
from tracecloak.schemas.statistics.background_knowledge import TIME_BITS, CaseTable

# Draws miss some interval with at most this probability.
ALPHA = 1e-9
THREE = Settings(sizes=(0, 1, 2, 3))


def log_of(traces: TraceBatch, name: str = "log", has_times: bool = True) -> LinkedLog:
    """With the disease as its sensitive value, coded alike in all of the small logs."""
    column = traces.attributes[DISEASE].to_pylist()
    values = [column[first] for first in traces.offsets[:-1]]
    labels = [[VALUES.index(value) + 1 if value in VALUES else 0] for value in values]
    return LinkedLog(name, traces, np.array(labels, np.int64).reshape(-1, 1), has_times)


# --- The paper's examples -------------------------------------------------------------------------

Piece = Sequence[tuple[str | None, str | None, int]]


def matched(attack: str, piece: Piece) -> set[int]:
    """The cases of Table 2 that match; elements are (activity, resource, hour)."""
    traces = table_2()
    log = LinkedLog("table 2", traces, np.arange(1, 7).reshape(-1, 1))
    known = KnownVictims.of(log, [], *ATTACKS[attack], "hours")
    activities = traces.vocabulary.names.to_pylist()
    resources = sorted(set(traces.attributes[RESOURCE].to_pylist()))
    words = []
    for activity, resource, hour in piece:
        code = 1 + (0 if activity is None else activities.index(activity))
        if resource is not None:
            cell = 1 + resources.index(resource)
            code = cell if activity is None else (code - 1) * (len(resources) + 1) + cell + 1
        words.append((code << TIME_BITS) + (hour if attack.endswith("T") else 0))
    if attack[-1] in "12":
        words.sort()
    items = np.searchsorted(known.elements, words)
    assert known.elements[items].tolist() == words
    found = known.targets[0].rows_with(items)
    return set(known.own.sensitive[found, 0].tolist())


@pytest.mark.parametrize(
    ("attack", "piece", "cases"),
    [
        ("A1", [("VI", None, 0), ("IN", None, 0)], {4}),
        ("A2", [("HO", None, 0), ("BT", None, 0), ("BT", None, 0)], {2}),
        ("A3", [("RE", None, 0), ("VI", None, 0), ("HO", None, 0)], {5}),
        ("R1", [(None, "E1", 0), (None, "D2", 0)], {5}),
        ("R2", [(None, "N1", 0), (None, "N1", 0), (None, "E3", 0)], {2}),
        ("R3", [(None, "E4", 0), (None, "D2", 0)], {4}),
        ("AR1", [("HO", "E6", 0)], {5}),
        ("AR1", [("VI", "D3", 0)], {1, 6}),  # section 2: both have the same trace
        ("AR2", [("BT", "N1", 0), ("BT", "N1", 0)], {2}),
        ("AR3", [("RE", "E4", 0), ("VI", "D2", 0)], {4}),
        # The visit is in the morning of the next day.
        ("A3", [("HO", None, 0), ("VI", None, 0)], {2, 3}),
        ("AT", [("HO", None, 1), ("VI", None, 25)], {2}),
        # Hospitalisation is more than an hour after registration.
        ("R3", [(None, "E1", 0), (None, "E3", 0)], {2, 3}),
        ("RT", [(None, "E1", 0), (None, "E3", 2)], {3}),
        # Almost four hours from the visit to the release.
        ("AR3", [("VI", "D3", 0), ("RL", "E6", 0)], {1, 6}),
        ("ART", [("VI", "D3", 1), ("RL", "E6", 5)], {6}),
    ],
)
def test_every_attack_example_of_the_paper_finds_its_case(
    attack: str, piece: Piece, cases: set[int]
) -> None:
    assert matched(attack, piece) == cases


# --- Against plain Python -------------------------------------------------------------------------


class NaiveRisk:
    """What `link` finds, with all pieces of all victims written out."""

    def __init__(
        self,
        original: TraceBatch,
        target: TraceBatch,
        attack: str,
        size: int,
        weaker: tuple[str, str] | None = None,
    ) -> None:
        kind, perspective = ATTACKS[attack]
        log = log_of(target)
        seen = naive(target, *(weaker or (kind, perspective)), 4).cases
        own_values = log_of(original).labels[:, 0].tolist()
        values = log.labels[:, 0].tolist()
        everybody = list(range(target.n_cases))
        victims = [
            (number, sorted(set(known)) if kind == "set" else known)
            for number, known in enumerate(elements_of(original, kind, perspective))
            if known
        ]
        self.n_victims = len(victims)
        self.sizes: dict[int, Fraction] = {}
        self.confidence = self.certain = self.above_half = self.true = Fraction(0)
        self.largest = Fraction(-1)
        at_worst = set()
        for number, known in victims:
            if kind == "multiset":
                known = sorted(known)
            pieces = list(itertools.combinations(known, min(size, len(known))))
            for piece in pieces:
                if weaker is not None:
                    piece = self._weakened(piece, kind, weaker)
                cases = everybody if piece is None else seen.get(piece, [])
                share = Fraction(1, len(pieces) * len(victims))
                self.sizes[len(cases)] = self.sizes.get(len(cases), Fraction(0)) + share
                if len(cases) == 1:
                    at_worst.add(number)
                among = cases or everybody
                counts = [sum(values[case] == v for case in among) for v in range(1, 4)]
                most = Fraction(max(counts), len(among))
                if cases:
                    self.largest = max(self.largest, most)
                self.confidence += share * most
                self.certain += share * (most == 1)
                self.above_half += share * (most > Fraction(1, 2))
                if own_values[number]:
                    self.true += share * Fraction(counts[own_values[number] - 1], len(among))
        self.at_worst = at_worst

    @staticmethod
    def _weakened(piece: tuple[Any, ...], kind: str, weaker: tuple[str, str]) -> Any:
        if kind == "relative" and weaker[0] == "sequence":
            piece = tuple(element for element, _ in piece)
            kind = "sequence"
        if piece and weaker[1] == "activity" and isinstance(piece[0], tuple):
            if kind == "relative":
                if isinstance(piece[0][0], tuple):
                    piece = tuple((element[0], hour) for element, hour in piece)
            else:
                piece = tuple(element[0] for element in piece)
        return piece

    def check(self, risk: Risk, worst: set[int]) -> None:
        got, expected = risk.singled_out.value, self.sizes.get(1, Fraction(0))
        assert got == pytest.approx(float(expected))
        ends = itertools.pairwise([*SET_SIZES.values(), math.inf])
        for name, (first, last) in zip(SET_SIZES, ends, strict=True):
            share = sum(s for n, s in self.sizes.items() if first <= n < last)
            assert risk.set_sizes[name].value == pytest.approx(float(share))
        picked = sum(s / n for n, s in self.sizes.items() if n)
        assert risk.picked.value == pytest.approx(float(picked))
        assert risk.smallest_set == min((n for n in self.sizes if n), default=None)
        assert risk.singled_out_at_worst == pytest.approx(len(worst) / self.n_victims)
        [value] = risk.values
        if value is None:
            return
        assert value.confidence.value == pytest.approx(float(self.confidence))
        assert value.certain.value == pytest.approx(float(self.certain))
        assert value.above_half.value == pytest.approx(float(self.above_half))
        assert value.true_value.value == pytest.approx(float(self.true))
        expected = None if self.largest < 0 else pytest.approx(float(self.largest))
        assert value.largest_confidence == expected


def check_all(
    found: Sequence[Linkage],
    original: TraceBatch,
    released: TraceBatch,
    weaker: Mapping[str, tuple[str, str]] | None = None,
) -> None:
    """Compares all attacks with plain Python."""
    worst: dict[tuple[str, int], set[int]] = {}
    for attack in found:
        assert attack.exact
        sides = [(original, attack.before, None)]
        sides.append((released, attack.after[0], (weaker or {}).get(attack.attack)))
        for number, (target, risk, less) in enumerate(sides):
            expected = NaiveRisk(original, target, attack.attack, attack.size, less)
            assert attack.victims == expected.n_victims
            seen = worst.setdefault((attack.attack, number), set())
            seen |= expected.at_worst
            expected.check(risk, seen)


@settings(deadline=None, max_examples=25)
@given(small_logs(5), small_logs(5), st.booleans())
def test_all_twelve_attacks_are_those_of_plain_python(
    original: Any, released: Any, has_tables: bool
) -> None:
    before, after = traces_with(original), traces_with(released)
    assume(has_resources(before) and has_resources(after))
    with pytest.MonkeyPatch.context() as patch:
        if not has_tables:
            patch.setattr(knowledge, "_MAX_TABLE_BYTES", 0)
        found = list(link(log_of(before), [log_of(after)], randomness(), THREE))
    assert [f.attack for f in found[::4]] == list(ATTACKS)
    check_all(found, before, after)


@settings(deadline=None, max_examples=25)
@given(small_logs(5), small_logs(5))
def test_knowledge_that_a_release_cannot_answer_is_left_out(original: Any, released: Any) -> None:
    """A release without resources and times: pairs are activities, times are an order."""
    before, after = traces_with(original), traces_with(released)
    assume(has_resources(before))
    plain = replace(after, attributes={DISEASE: after.attributes[DISEASE]})
    target = log_of(plain, has_times=False)
    found = list(link(log_of(before), [target], randomness(), THREE))
    for attack in found:
        if attack.perspective == "resource":  # nothing is known that helps
            assert attack.after[0].known_as == "nothing"
            assert attack.after[0].smallest_set == plain.n_cases
    weaker = dict.fromkeys(("AT", "AR3", "ART"), ("sequence", "activity"))
    weaker |= dict.fromkeys(("AR1", "AR2"), ("multiset", "activity"))
    check_all([f for f in found if f.perspective != "resource"], before, plain, weaker)


# --- Draws ----------------------------------------------------------------------------------------


def long_log(n_cases: int = 60, seed: int = 3) -> TraceBatch:
    draw = np.random.default_rng(seed)
    cases = {}
    for number in range(n_cases):
        n = int(draw.integers(1, 9))
        hours = np.sort(draw.integers(0, 4, n)) * 3_600_000_000
        events = [
            (str(draw.choice([*"ABCD"])), str(draw.choice(RESOURCES)), int(hour)) for hour in hours
        ]
        cases[f"c{number}"] = (events, {DISEASE: str(draw.choice(VALUES))})
    return traces_with(cases)


def estimates(risk: Risk) -> list[Any]:
    [value] = risk.values
    assert value is not None
    return [
        risk.singled_out, *risk.set_sizes.values(), risk.picked, value.confidence, value.above_half,
        value.certain, value.true_value,
    ]  # fmt: skip


def test_draws_agree_with_all_pieces() -> None:
    """All 12 · 3 · 2 · 13 intervals hold the exact figures; wrong with probability 1e-9."""
    log, other = log_of(long_log()), log_of(long_log(seed=4))
    sizes = (1, 2, 3)
    exact = list(link(log, [other], randomness(), Settings(sizes=sizes)))
    few = Settings(sizes=sizes, n_samples=3000, confidence=1 - ALPHA, most_exact=0)
    drawn = list(link(log, [other], randomness(), few))
    n_missed = n_intervals = 0
    for true, found in zip(exact, drawn, strict=True):
        assert true.exact and not found.exact
        assert (true.attack, true.size) == (found.attack, found.size)
        wrong = exact[(exact.index(true) // 3) * 3 + (true.size % 3)]
        for side in ("before", "after"):
            risks = [getattr(f, side) for f in (true, found, wrong)]
            right, guess, control = (r if side == "before" else r[0] for r in risks)
            assert guess.singled_out_at_worst is None
            for a, b, c in zip(*map(estimates, (right, guess, control)), strict=True):
                assert a.low == a.value == a.high
                assert b.low <= a.value <= b.high
                n_intervals += 1
                n_missed += not b.low <= c.value <= b.high
    assert n_intervals == 12 * 3 * 2 * 13
    assert n_missed > n_intervals / 4
    per_log = 2 + len(SET_SIZES) + 4
    alpha = ALPHA / (12 * 3 * 2 * per_log)
    width = drawn[0].before.picked.high - drawn[0].before.picked.value
    assert width == pytest.approx(math.sqrt(math.log(2 / alpha) / 6000))


# --- Logs -----------------------------------------------------------------------------------------


def with_values(log: dict[str, str], values: Sequence[str | None]) -> TraceBatch:
    traces = trace_batch(log)
    column = pa.array(np.repeat(values, traces.lengths).tolist(), pa.string())
    return replace(traces, attributes={"case:x": column.dictionary_encode()})


def test_numbers_are_put_into_boxes_by_the_quartiles_of_the_original() -> None:
    log = {str(i): "A" for i in range(13)}
    ages: list[str | None] = [str(i) for i in range(12)]
    original = with_values(log, [*ages, None])  # quartiles 2.75 and 8.25
    released = with_values({"a": "A", "b": "A", "c": "A", "d": "A"}, ["2.5", "8.25", "99", "old"])
    before, [after] = linked(original, [LinkedLog("r", released, no_values(released))], ["case:x"])
    assert before.labels[:, 0].tolist() == [1] * 3 + [2] * 6 + [3] * 3 + [0]
    assert after.labels[:, 0].tolist() == [1, 2, 3, 0]


def test_wrong_settings_are_refused() -> None:
    assert sensitive_columns("case:a=b, case:c") == {"case:a": "b", "case:c": "case:c"}
    for sizes in (7,), (2, 1):
        with pytest.raises(UsageError, match="sizes"):
            Settings(sizes=sizes)
    empty = LinkedLog("none", TraceBatch.from_events([]), np.zeros((0, 0), np.int64))
    with pytest.raises(UsageError, match="at least one case"):
        list(link(empty, [], randomness()))


def test_a_release_without_a_case_matches_nothing() -> None:
    empty = LinkedLog("none", TraceBatch.from_events([]), np.zeros((0, 1), np.int64))
    found = list(link(log_of(long_log(10)), [empty], randomness(), Settings(sizes=(0, 2))))
    for attack in found:
        assert attack.after[0].set_sizes["0"].value == 1
        assert attack.after[0].smallest_set is None


# --- The command ----------------------------------------------------------------------------------


@pytest.fixture
def original(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("TRACECLOAK_KEY_STORE", str(tmp_path / "keys"))
    return ",".join(str(path) for path in hospital_files(tmp_path, 200))


def release(tmp_path: Path, original: str, *flags: object) -> Path:
    folder = tmp_path / str(flags[1])
    common = ("--log", original, "--output", folder, "--runner", "InMemory", "--release_id", "r")
    assert tracecloak("release", *common, *flags) == 0
    return folder


def test_releases_of_every_kind_are_attacked(
    tmp_path: Path, original: str, capsys: pytest.CaptureFixture[str]
) -> None:
    noisy = release(
        tmp_path, original, "--method", "variant-histogram", "--epsilon", 5, "--delta", "1e-5"
    )
    sampled = release(tmp_path, original, "--method", "amun")
    grouped = release(tmp_path, original, "--method", "k-anonymous-variants", "--k", 5)
    files = tmp_path / "a.csv"  # a third of the original
    report = tmp_path / "deep" / "report.json"
    capsys.readouterr()
    assert tracecloak(
        "attack", "linkage", ",".join(map(str, (noisy, sampled, grouped, files))),
        "--log", original, "--report", report, "--sizes", "0,1,2", "--samples", 500,
    ) == 0  # fmt: skip
    printed = capsys.readouterr().out
    assert printed.startswith("INTERNAL") and str(noisy) in printed
    found = json.loads(report.read_text())
    assert found["publishable"] is False and "INTERNAL" in found["warning"]
    assert [log["log"] for log in found["releases"]] == [
        str(path) for path in (noisy, sampled, grouped, files)
    ]
    assert [log["has_times"] for log in found["releases"]] == [False, True, True, True]
    assert [(a["attack"], a["size"]) for a in found["attacks"]] == [
        (name, size) for name in ("A1", "A2", "A3", "AT") for size in (0, 1, 2)
    ]
    assert found["settings"]["samples"] == 500
    last = found["attacks"][-1]
    assert [risk["known_as"] for risk in last["after"]] == [
        "sequence of activity", *["relative of activity"] * 3
    ]  # fmt: skip
    assert last["before"]["singled_out"]["value"] > 0
    for attack in found["attacks"]:
        if attack["kind"] != "relative":  # times are not what the group shares
            assert attack["after"][2]["smallest_set"] >= 5
        assert sum(s["value"] for s in attack["before"]["set_sizes"].values()) == pytest.approx(1)
    page = report.with_suffix(".md").read_text()
    assert page.startswith("INTERNAL") and "## AT: relative of activity" in page


def test_what_cannot_be_attacked_is_said(
    tmp_path: Path, original: str, capsys: pytest.CaptureFixture[str]
) -> None:
    names = tmp_path / "names.txt"
    sample = ("--cases", 1, "--output", tmp_path / "one.csv", "--vocabulary", names)
    assert tracecloak("sample", *sample) == 0
    graph = release(
        tmp_path, original, "--method", "private-dfg", "--vocabulary", names, "--epsilon", 1
    )
    attack = ("attack", "linkage", "--log", original, "--report", tmp_path / "r.json")
    for flags, message in (
        ((graph,), "holds no log"),
        ((tmp_path / "nowhere",), "is not there"),
        ((tmp_path / "a.csv", "--sizes", "many"), "must be whole numbers"),
        ((tmp_path / "a.csv", "--samples", "0"), "at least 1"),
        ((tmp_path / "a.csv", "--sensitive", "age"), "case:NAME"),
        ((), "required: RELEASE"),
    ):
        assert tracecloak(*attack, *flags) == (3 if "not there" in message else 2)
        assert message in capsys.readouterr().err
    next(Path(graph).glob("run_id=*/dfg.json")).write_text("{}")
    one = (*attack[:3], tmp_path / "a.csv", *attack[4:])
    assert tracecloak(*one, f"{graph},{graph}") == 3
    assert f"release {str(graph)!r}: Not as manifest.json lists" in capsys.readouterr().err
    wrong = (tmp_path / "a.csv", "--sensitive", "case:age")
    assert tracecloak(*attack, *wrong) == 3
    assert "case:age" in capsys.readouterr().err


# A case is codes of activities with the hours since it began.
Case = tuple[tuple[int, int], ...]
CASES = st.lists(
    st.lists(st.tuples(st.integers(1, 3), st.integers(0, 2)), min_size=1, max_size=5).map(tuple),
    min_size=1,
    max_size=6,
)


def table(cases: list[Case]) -> CaseTable:
    words = [(code << TIME_BITS) + hour for case in cases for code, hour in case]
    return CaseTable(
        offsets_of(np.array([len(case) for case in cases])),
        np.array(words, np.int64),
        np.ones(len(cases), np.int64),
        np.zeros((len(cases), 0), np.int64),
    )


def has(case: Case, piece: tuple[tuple[int, int], ...]) -> bool:
    events = iter(case)
    return all(one in events for one in piece)


def naive_share(original: list[Case], released: list[Case]) -> float:
    """The mean over cases, and over all ways to know so many of their events."""
    of_cases = []
    for case in original:
        pieces = list(itertools.combinations(case, min(N_KNOWN, len(case))))
        alone = [sum(has(one, piece) for one in released) == 1 for piece in pieces]
        of_cases.append(sum(alone) / len(alone))
    return sum(of_cases) / len(of_cases)


@given(CASES, CASES)
def test_the_share_is_that_of_a_search_case_by_case(
    original: list[Case], released: list[Case]
) -> None:
    known = SingledOut(table(original), "relative")
    assert known.share(table(released)) == pytest.approx(naive_share(original, released))
    assert known.share(table(original)) == pytest.approx(naive_share(original, original))


def test_ten_of_many_events_are_known_and_the_same_ten_each_time() -> None:
    """Two cases differ in the last of 40 events: who knows ten of them knows it in a quarter."""
    beginning = [(1 + i % 3, i) for i in range(39)]
    first, second = ((*beginning, (code, 40)) for code in (1, 2))
    known, again = (SingledOut(table([first, second]), "relative") for _ in range(2))
    share = known.share(table([first, second]))
    assert share == pytest.approx(0.25, abs=0.05)
    assert again.share(table([first, second])) == share
    assert known.share(table([first])) > share  # whoever is looked for, one case alone is there
    assert known.share(table([])) == 0


def test_without_times_the_order_alone_tells_cases_apart() -> None:
    a, b = ((1, 0), (2, 0)), ((2, 0), (1, 0))
    assert SingledOut(table([a, b]), "sequence").share(table([a, b])) == 1
    assert SingledOut(table([a, a, b]), "sequence").share(table([a, a, b])) == pytest.approx(1 / 3)
