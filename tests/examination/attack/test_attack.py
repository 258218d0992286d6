"""`tracecloak attack config`: its reports, its exit codes, and the pairs of logs it audits on."""

from __future__ import annotations

import itertools
import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tests.support import broken_methods
from tests.support.broken_methods import variant_histogram_with
from tests.support.examples import examples_of
from tests.support.keys import release_key
from tests.support.logs import read_cases, trace_batch
from tests.support.registered import register
from tests.support.releasing import csv_log, tracecloak
from tests.support.tiers import at_night
from tests.support.trees import language, random_tree
from tracecloak.anonymizers.contract.method import Anonymizer
from tracecloak.anonymizers.logs.private_log import PrivateLog
from tracecloak.anonymizers.noise.randomness import ReleaseKey
from tracecloak.anonymizers.registry import METHODS
from tracecloak.anonymizers.trees.process_tree import ProcessTreeMiner
from tracecloak.anonymizers.variants.method import VariantHistogramMethod
from tracecloak.examination.attack.neighbours import (
    all_pairs_walk,
    canaries,
    pairs_of_log,
    synthetic_pairs,
    with_cases,
)
from tracecloak.examination.attack.releases import (
    Releases,
    changed_cells,
    feature_names,
    seen_in,
    steps_of_tree,
    watched_keys,
)
from tracecloak.examination.attack.run import attack, audit_pair
from tracecloak.examination.measure.registry import INTERNAL
from tracecloak.schemas.events.declarations import Attribute, Declaration
from tracecloak.schemas.events.traces import TraceBatch
from tracecloak.schemas.models import parse_tree
from tracecloak.schemas.published.manifest import has_times
from tracecloak.schemas.statistics.variants import VariantHistogram

EXAMPLES = [(name, k) for name in sorted(METHODS) for k in range(len(examples_of(METHODS[name])))]


def rows(n_usual: int = 40) -> list[tuple[str, str, str]]:
    """Many cases of one variant, and twelve that are alone with theirs; one activity is rare."""
    variants = [("Admit", "Treat", "Leave")] * n_usual
    lone = itertools.product(("Admit", "Treat", "Leave"), repeat=2)
    variants += [("Admit", "Oncology", *steps) for steps in lone]
    variants += [("Treat",), ("Leave",), ("Oncology",)]
    return [
        (f"secret-{case}", activity, f"2026-01-{1 + case % 28:02d}T1{step}:00:00+00:00")
        for case, variant in enumerate(variants)
        for step, activity in enumerate(variant)
    ]


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return csv_log(tmp_path / "log.csv", rows())


def run(log: Path, method: str, *flags: object, releases: int = 16) -> int:
    report = log.parent / "report.json"
    return tracecloak(
        "attack", "config", "--log", log, "--method", method, *flags,
        "--releases", releases, "--report", report,
    )  # fmt: skip


def keys() -> Iterator[ReleaseKey]:
    return map(release_key, itertools.count())


def read(log: Path) -> tuple[dict[str, Any], str]:
    text = (log.parent / "report.md").read_text(encoding="utf-8")
    return json.loads((log.parent / "report.json").read_text(encoding="utf-8")), text


# --- the command ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "flags"),
    [
        ("variant-histogram", ["--epsilon", "1"]),
        at_night("private-dfg", ["--epsilon", "2", "--vocabulary", "public.txt"]),
        at_night("amun", ["--guessing_advantage", "0.2"]),
    ],
)
def test_both_reports_are_written_and_tell_nothing_of_the_log(
    log: Path,
    method: str,
    flags: list[str],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(log.parent)
    Path("public.txt").write_text("Admit\nTreat\n", encoding="utf-8")
    assert run(log, method, *flags) == 0
    found, text = read(log)
    printed = capsys.readouterr()
    assert text.splitlines()[0] == printed.out.splitlines()[0] == INTERNAL
    assert (next(iter(found)), found["warning"]) == ("warning", INTERNAL)
    assert {path.name for path in log.parent.iterdir()} == {
        "log.csv", "public.txt", "report.html", "report.json", "report.md",
    }  # fmt: skip
    names = ["secret-", "Oncology", "Leave", *(() if method == "private-dfg" else ["Admit"])]
    for name in names:
        assert name not in text + json.dumps(found) + printed.out + printed.err
    assert found["verdict"] in text and found["verdict"] in printed.out
    assert found["audited"]["epsilon"] == max(
        found["audited"]["canaries"]["epsilon"],
        *(pair["epsilon"] for pair in found["audited"]["pairs"]),
    )
    assert "your log and the same without one unit" in text
    assert found["log"]["cases"] == 52
    assert not found["is_refuted"]


@pytest.mark.slow
def test_a_rigorous_report_sets_claim_account_and_audit_side_by_side(log: Path) -> None:
    assert run(log, "private-dfg", "--epsilon", "20", "--delta", "1e-5", "--buy_vocabulary") == 0
    found, text = read(log)
    assert found["claimed"]["kind"] == "rigorous"
    assert (found["claimed"]["epsilon"], found["claimed"]["delta"]) == (20, 1e-5)
    assert 0 < found["accounted_epsilon"] <= 20
    assert found["audited"]["ratio_to_claimed"] == found["audited"]["epsilon"] / 20
    # No number of releases that a test makes can refute so large an epsilon.
    assert found["audited"]["largest_provable"] < 20
    assert found["verdict"].startswith("undecided: epsilon 20 is claimed")
    assert found["choices_paid_for"] == ["vocabulary"]
    [joint] = found["spends"]
    assert [block["what"] for block in joint["blocks"]] == [
        "vocabulary", "edges clip", "edges", "edges beyond"
    ]  # fmt: skip
    assert "\n- all: epsilon 20, delta 0.00001\n  The noise has these" in text
    assert found["log"]["support"] is None
    # The family of bounds has the confidence that was asked for.
    each = [pair["confidence"] for pair in found["audited"]["pairs"]]
    assert sum(1 - one for one in each) < 1 - found["audited"]["confidence"]
    assert {pair["looked_at"] for pair in found["audited"]["pairs"]} == {"noisy sums", "release"}
    assert "Chosen on the log and paid for: vocabulary" in text


def test_a_false_claim_ends_with_5_after_the_report_is_written(
    log: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    broken = variant_histogram_with(broken_methods.NOISES["one-sided"])
    register(monkeypatch, broken)
    assert run(log, "variant-histogram", "--epsilon", "1", releases=500) == 5
    found, text = read(log)
    assert found["is_refuted"]
    assert found["verdict"].startswith("the claim is false: ")
    assert found["verdict"] in text and found["verdict"] in capsys.readouterr().err


def test_so_few_releases_that_they_prove_nothing_are_refused(
    log: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(log, "variant-histogram", "--epsilon", "1", releases=15) == 2
    assert "at least 16, got 15" in capsys.readouterr().err


def many_variants() -> TraceBatch:
    """120 variants of fifty cases each: enough noise to see that it comes again."""
    words = (" ".join(word) for n in (2, 3, 4) for word in itertools.product("ABCD", repeat=n))
    variants = list(itertools.islice(words, 120))
    return trace_batch({f"{i}": variants[i % 120] for i in range(6000)})


@pytest.mark.parametrize("broken", [None, broken_methods.reused])
def test_noise_comes_again_in_the_same_release_and_in_no_other(broken: Any) -> None:
    """Forty values of noise that are not 0 are the same by chance with probability below 1e-12."""
    method = VariantHistogramMethod() if broken is None else variant_histogram_with(broken)
    params, key = method.Params(epsilon="0.5"), release_key(1)
    releases = Releases(many_variants(), method, params, itertools.repeat(key))
    first, again, other = (releases.make(name) for name in ("a", "a", "b"))
    assert first == again
    assert (first == other) == (broken is not None)


class OfAList(VariantHistogramMethod):
    """Counts what no made-up case does, four times each: it keeps four times its epsilon."""

    def decide(
        self, round_name: str, statistics: Any, decisions: Any, params: Any, randomness: Any
    ) -> Any:
        counted = statistics["variants"]
        lengths = np.diff(counted.offsets)
        rows = np.flatnonzero(lengths == 7)
        listed = VariantHistogram(counted.sequences.take(rows), 4 * counted.counts[rows])
        statistics = {**statistics, "variants": listed}
        return super().decide(round_name, statistics, decisions, params, randomness)


def test_an_attack_that_does_not_reach_what_is_counted_says_so() -> None:
    """Or a mistake in counting a list of variants would pass as consistent with the claim."""
    report = attack(OfAList(), VariantHistogramMethod.Params(epsilon="0.5"), None, 120, keys=keys())
    assert not any(finding["is_reached"] for finding in report["audited"]["pairs"])
    assert report["verdict"].startswith("undecided: no number of what the units")
    right = attack(VariantHistogramMethod(), OfAList.Params(epsilon="0.5"), None, 120, keys=keys())
    assert any(finding["is_reached"] for finding in right["audited"]["pairs"])
    assert right["verdict"].startswith("consistent with the claim")


# --- releases made fast are releases --------------------------------------------------------------


@pytest.mark.by_day(9)
@pytest.mark.parametrize(
    ("name", "k", "n_pairs", "n"),
    [(name, 0, 1, 2) for name, k in EXAMPLES if not k]
    + [at_night(name, k, 99, 4) for name, k in EXAMPLES],
)
def test_counting_once_changes_no_release(name: str, k: int, n_pairs: int, n: int) -> None:
    """Against releases that count every round anew, under the same keys."""
    method = METHODS[name]
    params = method.Params(**examples_of(method)[k])
    pairs = synthetic_pairs(method, params)[2:]
    assert pairs
    for pair in pairs[:n_pairs]:
        # The first keys go to the probes, by which it is found what may be counted once.
        first = itertools.repeat(release_key(99), 200)
        releases, plain = (
            Releases(pair.with_unit, method, params, first, shows_sums=True) for _ in range(2)
        )
        plain.bounded = None
        for _ in range(2):
            releases.make()
        for number in range(n):
            for one in (releases, plain):
                one._keys = itertools.repeat(release_key(number))
            assert releases.make() == plain.make()


# --- times and values -----------------------------------------------------------------------------


def is_timed(params: Any) -> bool:
    return getattr(params, "is_timed", False)


def small_timed(**others: Any) -> tuple[PrivateLog, Any]:
    method = PrivateLog()
    example = {**PrivateLog.examples[0], "epsilon": "100", **others}
    return method, method.Params(**example)


def test_a_log_is_counted_by_times_and_values() -> None:
    """Three cases from January to March, of which one has a single event."""
    attributes = (
        Attribute("org:resource", Declaration(values=("R1", "R2"))),
        Attribute("case:age", Declaration(bounds=(0, 100), n_bins=2)),
    )
    day = 24 * 60
    log = trace_batch(
        {"c1": f"A@{day} B@{day} C@{3 * day}", "c2": "A@0 B@1", "c3": f"A@{60 * day}"}
    )
    log = replace(
        log,
        attributes={
            "org:resource": pa.array(["R1", "R1", None, "R2", "other", "R1"]).dictionary_encode(),
            "case:age": pa.array([10.0, 10.0, 10.0, 90.0, 90.0, None]),
        },
    )
    seen = seen_in({}, log, attributes)
    found = {key: n for key, n in seen.items() if key[0] in ("start", "step", "span", "value")}
    # Two days are 172,800,000,000 microseconds, of 12 digits; a minute has 8, and no time 0.
    assert found == {
        ("start", "1970-01-01"): 2, ("start", "1970-03-01"): 1, ("step", "0"): 1, ("step", "12"): 1,
        ("step", "8"): 1, ("span", "12"): 1, ("span", "8"): 1, ("value", "org:resource", "0"): 2,
        ("value", "org:resource", "1"): 3, ("value", "org:resource", "2"): 1,
        ("value", "case:age", "0"): 1, ("value", "case:age", "1"): 1, ("value", "case:age", "2"): 1,
    }  # fmt: skip


def test_made_up_logs_lie_in_the_public_range_and_have_what_is_declared() -> None:
    method, params = small_timed(working_hours="8-18", last_date="2020-01-03")
    time = params.log_time.working_time({})
    units = {}
    for pair in synthetic_pairs(method, params):
        more = pair.with_unit
        assert np.array_equal(time.at_us(time.elapsed_us(more.times)), more.times)
        assert (np.diff(more.times)[~more.is_first[1:]] >= 0).all()
        assert more.attributes["org:resource"].type == pa.dictionary(pa.int32(), pa.string())
        units[pair.what.partition("one case ")[2]] = more.take(np.array([more.n_cases - 1]))
        others = pair.without_unit
        assert set(others.attributes["org:resource"].to_pylist()) <= {"R1"}
        assert (others.durations[~others.is_first] == 60_000_000).all()
        if "before all others" in pair.what:
            alone = more.take(np.array([more.n_cases - 1])).starts[0]
            assert alone == time.at_us(np.zeros(1, np.int64))[0]
            assert others.starts.min() >= time.at_us(np.array([time.total_us // 2]))[0]
    late = units["that starts when nobody else does"]
    assert late.times[-1] == time.closes_us[-1] - 60_000_000 - 1
    still = units["with a step that takes no time, as nobody else's"]
    assert still.durations.tolist() == [0, 0, 60_000_000]
    long = units["that takes as long as nobody else's"]
    assert time.elapsed_us(long.times)[-1] == time.total_us // 2
    alone = units["with values that nobody else has"]
    assert set(alone.attributes["org:resource"].to_pylist()) == {"R2"}
    (undeclared,) = set(
        units["with values that nobody declared"].attributes["org:resource"].to_pylist()
    )
    assert undeclared not in ("R1", "R2", None)


def test_the_cells_that_a_unit_is_in_are_watched() -> None:
    method, params = small_timed(vocabulary=("A", "B"))
    (pair,) = [p for p in synthetic_pairs(method, params) if "values that nobody else" in p.what]
    both = pair.with_unit, pair.without_unit
    sides = [Releases(log, method, params, keys(), shows_sums=True) for log in both]
    cells = changed_cells(sides, release_key(0))
    # A, B: one case, one day and hour, one time over all; by class, period and time, which are
    # three; the time of one pair; a step by A, B, by B, and by its place in A, B; R2 of either
    # activity, of three values each; and of the variants three arcs and the case, four
    # descriptions and three activities, and two ranks.
    assert Counter(purpose for _, purpose, *_ in cells) == {
        "number of cases": 1, "starts by date": 1, "starts by hour": 1, "case span": 1,
        "case table": 3, "time of a pair": 1, "step duration": 3, "attribute/org:resource": 2,
        "granularity": 1, "joint-variants/cases": 1, "joint-variants/chain": 4,
        "joint-variants/marginals": 7, "joint-variants/ranks": 2,
    }  # fmt: skip
    values = [cell for cell in cells if cell[1] == "attribute/org:resource"]
    assert {cell[2:] for cell in values} == {("2", "9"), ("5", "9")}
    watched = watched_keys(pair.variants, cells)
    assert len(set(feature_names(watched))) == 1 + len(watched)
    logs = [Releases(log, method, params, keys()) for log in both]
    of_log = changed_cells(logs, release_key(0))
    assert {key[:2] for key in of_log if key[0] == "value"} == {("value", "org:resource")}


# --- the pairs of logs ----------------------------------------------------------------------------


def what_pairs_depend_on(name: str, k: int) -> tuple[Any, ...]:
    method = METHODS[name]
    params = method.Params(**examples_of(method)[k])
    has_values = bool(method.attributes(params))
    m = method.bounds(params).max_cases_per_individual
    return method.log, m, is_timed(params), has_values


ONE_OF_EACH = {what_pairs_depend_on(*example): example for example in EXAMPLES}.values()


@pytest.mark.parametrize(
    ("name", "k"),
    [example if example in ONE_OF_EACH else at_night(*example) for example in EXAMPLES],
)
def test_the_logs_of_a_pair_differ_in_one_unit(name: str, k: int) -> None:
    method = METHODS[name]
    params = method.Params(**examples_of(method)[k])
    m = method.bounds(params).max_cases_per_individual
    pairs = synthetic_pairs(method, params)
    is_with_times = method.log == "transformed" and has_times(method.operations_of(params))
    n_of_times = 4 if is_with_times or is_timed(params) else 0
    n_of_values = 2 if method.attributes(params) else 0
    n_pairs = (7 if m is None else 9) + n_of_times + n_of_values
    assert len({pair.what for pair in pairs}) == len(pairs) == n_pairs
    for pair in pairs:
        more, fewer = read_cases(pair.with_unit), read_cases(pair.without_unit)
        assert fewer.items() <= more.items()
        n_more = len(more) - len(fewer)
        if m is None:
            assert n_more == 1
        else:
            whose = Counter(pair.with_unit.individuals.to_pylist())
            whose.subtract(pair.without_unit.individuals.to_pylist())
            assert [n for n in whose.values() if n] == [n_more]
            assert n_more in (m, m + 3)


@pytest.mark.parametrize("n", [1, 2, 3, 6])
def test_the_walk_takes_every_pair_once(n: int) -> None:
    walk = all_pairs_walk("ABCDEF"[:n], 1000)
    steps = list(itertools.pairwise(walk))
    assert len(steps) == len(set(steps)) == n * n
    assert all_pairs_walk("ABCDEF"[:n], 2) == walk[:2]


def test_the_own_log_gains_and_loses_a_whole_individual() -> None:
    method = VariantHistogramMethod()
    params = method.Params(epsilon="1", max_cases_per_individual=2)
    whose = {"c1": "anna", "c2": "anna", "c3": "bert", "c4": "carl", "c5": "bert"}
    log = trace_batch({"c1": "A B", "c2": "B", "c3": "A", "c4": "A", "c5": "A"}, individuals=whose)
    gained, lost = pairs_of_log(log, method, params)
    assert gained.without_unit is log
    assert Counter(gained.with_unit.individuals.to_pylist())["the unit"] == 2
    assert lost.with_unit is log
    # Only anna has variants that nobody else has; with her goes all that is hers.
    assert sorted(read_cases(lost.without_unit)) == ["c3", "c4", "c5"]
    assert lost.variants == (("A", "B"), ("B",))


def test_canaries_are_variants_of_their_own_within_the_bounds() -> None:
    method = VariantHistogramMethod()
    params = method.Params(epsilon="1", vocabulary=("A",), max_trace_length=2)
    log = trace_batch({"c1": "A X", "c2": "A"})
    # Within the bounds c1 is A, __other__; of two public activities there is one word, A A.
    assert canaries(log, method, params, 5) == [("A", "A")]
    free = method.Params(epsilon="1")
    found = canaries(log, method, free, 50)
    assert len(set(found)) == 50 and set(itertools.chain(*found)) == {"A", "X"}
    grown = with_cases(log, [("someone", found[0])])
    assert len(read_cases(grown)) == 3
    assert read_cases(log).items() <= read_cases(grown).items()


# --- process trees --------------------------------------------------------------------------------

# Table I of the paper on the difference attack, with one case that has two surgeries.
PAPER = {tuple("RHMD"): 63, tuple("RHSD"): 25, tuple("RHD"): 12, tuple("RHSSD"): 1}


@pytest.mark.by_day(8)
@pytest.mark.parametrize(
    "text",
    [
        "*( X( tau, 'A' ), 'B' )",
        "*( 'A', X( tau, 'B' ) )",
        "*( X( tau, 'A' ), X( tau, 'B' ) )",
        "*( ->( X( tau, 'A' ), 'B' ), tau )",
        "->( X( tau, 'A' ), X( tau, 'B' ), 'C' )",
        "+( 'A', *( 'B', 'C' ) )",
        "+( X( tau, 'A' ), X( tau, 'B' ) )",
        "tau",
        *map(str, range(30)),
    ],
)
def test_the_steps_of_a_tree_are_those_of_its_words(text: str) -> None:
    """By listing all words up to a length that every step of four activities is seen in."""
    tree = (
        random_tree(np.random.default_rng(int(text)), "ABCD"[: 2 + int(text) % 3])
        if text.isdigit()
        else parse_tree(text)
    )
    words = language(tree, 8)
    steps = {step for word in words for step in zip((None, *word), (*word, None), strict=True)}
    assert steps_of_tree(tree) == steps


@pytest.mark.parametrize(
    ("method", "is_told"),
    [(broken_methods.MinerOfTheExactLog(), True), at_night(ProcessTreeMiner(), False)],
    ids=["exact", "noisy"],
)
def test_a_tree_tells_of_a_lone_case_by_the_steps_that_it_allows(
    method: Anonymizer, is_told: bool
) -> None:
    """The difference of two trees without noise; the mistake is found, and no other is."""
    cases = itertools.chain(*([variant] * n for variant, n in PAPER.items()))
    log = trace_batch({f"c{i}": " ".join(variant) for i, variant in enumerate(cases)})
    params = method.Params(epsilon="1", vocabulary=tuple("DHMRS"), n_sizes=2)
    (lost,) = (p for p in pairs_of_log(log, method, params) if p.with_unit is log)
    found = audit_pair(lost, method, params, 0.0, 100, 1 - 1e-6, keys=keys())
    assert found.is_reached
    assert (found.epsilon > 1) == is_told
    watched = watched_keys(lost.variants, sees_trees=True)
    column = 1 + watched.index(("step in the tree", "S", "S"))
    with_case, without_case = (
        np.isfinite(Releases(side, method, params, keys()).sample(20, watched)[:, column])
        for side in (lost.with_unit, lost.without_unit)
    )
    assert (with_case.all() and not without_case.any()) == is_told
