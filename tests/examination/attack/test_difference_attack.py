"""The difference attack of `tracecloak attack config`: plain trees tell, others do not."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from tests.support.broken_methods import MinerOfTheExactLog
from tests.support.keys import release_key
from tests.support.logs import Variant, trace_batch
from tests.support.registered import register
from tests.support.releasing import csv_log, tracecloak
from tests.support.tiers import at_night
from tracecloak.anonymizers.contract.in_memory import anonymise
from tracecloak.anonymizers.contract.method import Anonymizer
from tracecloak.anonymizers.noise.release_key import ReleaseKey
from tracecloak.anonymizers.registry import METHODS
from tracecloak.anonymizers.trees.dpim import Dpim
from tracecloak.anonymizers.trees.process_tree import ProcessTreeMiner
from tracecloak.anonymizers.variants.method import VariantHistogramMethod
from tracecloak.examination.attack.difference_attack import (
    _log_of,
    difference_attack,
    histogram_of,
    plain_tree,
    releases_of,
    releases_trees,
)
from tracecloak.examination.attack.neighbours import variant_counts
from tracecloak.examination.attack.report import DifferenceFinding
from tracecloak.examination.attack.run import attack
from tracecloak.examination.audit.attacks import largest_success
from tracecloak.examination.measure.mining import inductive_tree
from tracecloak.examination.measure.report_files import INTERNAL
from tracecloak.schemas.events.traces import TraceBatch
from tracecloak.schemas.events.vocabulary import ActivityVocabulary
from tracecloak.schemas.models.process_tree import normalise
from tracecloak.schemas.statistics.variants import VariantHistogram

# Table I of the paper with its variants 4 and 5, of one case each.
PAPER = {
    tuple("RHMD"): 63,
    tuple("RHSD"): 25,
    tuple("RHD"): 12,
    tuple("RHSSD"): 1,
    tuple("RMD"): 1,
}
NAMES = {"R": "Register", "H": "Hospitalize", "M": "Oncology", "S": "Surgery", "D": "Discharge"}
PUBLIC = tuple("DHMRS")
# A bound is wrong with this probability.
ALPHA = 1e-9


def keys(number: int = 0) -> Iterator[ReleaseKey]:
    return map(release_key, itertools.count(number << 32))


def attacked(
    method: Anonymizer,
    n_games: int,
    counts: Mapping[Variant, int] = PAPER,
    number: int = 0,
    confidence: float = 1 - ALPHA,
    **given: Any,
) -> tuple[DifferenceFinding, float | None]:
    """The finding and the claimed epsilon."""
    params = method.Params(**given)
    found = difference_attack(
        counts, method, params, confidence, float("inf"), keys(number), n_games
    )
    return found, method.guarantee(params).epsilon


METHODS_WITH_TREES: list[tuple[Anonymizer, dict[str, Any]]] = [
    (ProcessTreeMiner(), {"epsilon": "1", "vocabulary": PUBLIC, "n_sizes": 2}),
    (ProcessTreeMiner(), {"epsilon": "0.2", "delta": "0", "vocabulary": PUBLIC, "n_sizes": 2}),
    (ProcessTreeMiner(), {"epsilon": "2", "n_sizes": 2, "buy_vocabulary": True}),
    (Dpim(), {"epsilon": "1.25", "vocabulary": PUBLIC, "stop_probability": "0.1"}),
    (Dpim(), {"epsilon": "0.2", "vocabulary": PUBLIC, "stop_probability": "0.1"}),
]


# --- what is found --------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def of_exact_log() -> tuple[DifferenceFinding, float | None]:
    return attacked(MinerOfTheExactLog(), 40, epsilon="0.2", vocabulary=PUBLIC)


@pytest.mark.slow
def test_a_plain_tree_always_tells_whether_a_lone_case_is_in_it(
    of_exact_log: tuple[DifferenceFinding, float | None],
) -> None:
    """Both cases of the log that are exposed change it, and nothing else does: all are right."""
    found, _ = of_exact_log
    presence, behaviour = found.guesses
    assert found.n_exposed == 2
    assert presence.n_games == behaviour.n_games == 40
    assert presence.n_right_plain == 40
    # A fair coin is right 40 times of 40 with probability 1e-12, and 30 times at 1 in 4 with 1e-11.
    assert behaviour.n_right_plain >= 30


@pytest.mark.parametrize("more", [None, tuple("RHSSD"), tuple("RMD")])
def test_the_trees_of_the_papers_example_are_those_of_pm4py(more: Variant | None) -> None:
    """So what is told by our plain trees is told by those of the miner that is widely used."""
    pytest.importorskip("pm4py")
    counts = {variant: n for variant, n in PAPER.items() if n > 1 or variant == more}
    variants = histogram_of(counts, PUBLIC)
    theirs = inductive_tree(variants, ActivityVocabulary.of(PUBLIC), is_infrequent=False)
    assert normalise(theirs) == plain_tree(variants, PUBLIC)


@pytest.mark.slow
def test_nobody_in_a_crowd_changes_a_plain_tree() -> None:
    """All guess that the case is not in the log, and are right half of the time."""
    crowd = {variant: 60 for variant in list(PAPER)[:3]}
    found, _ = attacked(MinerOfTheExactLog(), 30, crowd, epsilon="1", vocabulary=PUBLIC)
    assert found.n_exposed == 0
    assert 0 < found.guesses[0].n_right_plain < 30  # left with probability below 2e-9


def tells_no_more_than_is_claimed(case: int, n_games: int) -> None:
    method, given = METHODS_WITH_TREES[case]
    found, claimed = attacked(method, n_games, number=case, **given)
    assert claimed is not None and len(found.guesses) == 2
    for guess in found.guesses:
        assert guess.n_games == n_games
        assert guess.epsilon <= claimed
        assert guess.largest_share is not None
        # Coins of the allowed share come up so often with this probability.
        assert stats.binom.sf(guess.n_right - 1, n_games, guess.largest_share) > ALPHA


@pytest.mark.parametrize("case", [1, 4])
def test_released_trees_tell_no_more_than_is_claimed(case: int) -> None:
    """A right claim is accused with probability 2e-9 at most; a false one in the next test.

    At epsilon 0.2: what larger ones allow can be won in all of 40 games by luck.
    """
    tells_no_more_than_is_claimed(case, 40)


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("case", range(len(METHODS_WITH_TREES)))
def test_many_released_trees_tell_no_more_than_is_claimed(case: int) -> None:
    """Likewise, with a bound within 0.1 of the truth."""
    tells_no_more_than_is_claimed(case, 1200)


def test_a_miner_without_noise_that_claims_epsilon_is_refuted(
    of_exact_log: tuple[DifferenceFinding, float | None],
) -> None:
    """The control: the same games, under a claim that allows 55 % and 29 % of them to be won."""
    found, claimed = of_exact_log
    assert claimed == 0.2
    presence, behaviour = found.guesses
    assert presence.n_right == 40
    assert min(presence.epsilon, behaviour.epsilon) > claimed


def test_dpim_with_hardly_any_noise_tells() -> None:
    """So the attack reaches what the method releases, and fails above because of its noise."""
    n_pairs = (10, 10)  # as many as the log has
    found, claimed = attacked(Dpim(), 40, epsilon="100000", vocabulary=PUBLIC, size_bounds=n_pairs)
    assert claimed is not None and claimed > 1e4
    assert found.guesses[0].n_right >= 34  # of 40 by a fair coin with probability 4e-6


def test_the_bounds_are_those_of_the_adjacency() -> None:
    """One case more or less; or another in its place, for which the number of cases is public."""
    (ours, given), (theirs, others) = METHODS_WITH_TREES[0], METHODS_WITH_TREES[3]
    found, _ = attacked(ours, 1, **given)
    assert [guess.largest_share for guess in found.guesses] == [
        largest_success(1.0, 1e-6, 2, are_neighbours=True),
        largest_success(1.0, 1e-6, 4, are_neighbours=False),
    ]
    assert found.guesses[0].asked == "whether a case is in the log"
    found, epsilon = attacked(theirs, 1, **others)
    assert epsilon is not None
    assert [guess.largest_share for guess in found.guesses] == [
        largest_success(epsilon, 0.0, k, are_neighbours=True) for k in (2, 4)
    ]
    assert found.guesses[0].asked.endswith("or another in its place")


def test_without_a_finite_claim_nothing_is_allowed_or_refuted() -> None:
    found, claimed = attacked(Dpim(), 1, epsilon="1", stop_probability="1")
    assert claimed is None
    assert [guess.largest_share for guess in found.guesses] == [None, None]


def test_games_follow_from_the_keys() -> None:
    method, given = METHODS_WITH_TREES[0]
    first, again, other = (attacked(method, 12, number=i, **given)[0] for i in (5, 5, 6))
    assert first == again != other


@pytest.mark.parametrize(
    ("counts", "n_questions"), [({}, 0), ({("A",): 1}, 1), ({("A", "B"): 1}, 2)]
)
def test_small_logs_have_as_many_questions_as_they_allow(
    counts: dict[Variant, int], n_questions: int
) -> None:
    """Of the one case A there are A, A and A, A, A … only, none of them three edits."""
    found, _ = attacked(ProcessTreeMiner(), 3, counts, epsilon="1", vocabulary=("A", "B"))
    assert len(found.guesses) == n_questions


def test_fewer_games_are_played_where_releases_take_long() -> None:
    method, given = METHODS_WITH_TREES[0]
    params = method.Params(**given)
    found = difference_attack(PAPER, method, params, 0.999, 0.0, keys())
    assert {guess.n_games for guess in found.guesses} == {16}
    found = difference_attack(PAPER, method, params, 0.999, 1e6, keys(), 20)
    assert {guess.n_games for guess in found.guesses} == {20}


# --- logs and releases ----------------------------------------------------------------------------


def paper_log() -> TraceBatch:
    cases = itertools.chain(*([variant] * n for variant, n in PAPER.items()))
    return trace_batch({f"c{i}": " ".join(variant) for i, variant in enumerate(cases)})


@pytest.mark.parametrize("by_individual", [False, True])
def test_a_log_of_variants_is_the_log(by_individual: bool) -> None:
    method = ProcessTreeMiner()
    given = {"max_cases_per_individual": 2} if by_individual else {}
    params = method.Params(epsilon="1", vocabulary=PUBLIC, **given)
    names = [*"ADHMRS", "not in it"]
    variants = histogram_of(PAPER, names)
    log = _log_of(variants, names, method, params)
    assert variant_counts(log, method, params) == PAPER
    assert log.vocabulary.names.to_pylist() == [*"DHMRS"]
    assert (log.durations[~log.is_first] == 60_000_000).all()
    assert VariantHistogram.from_traces(log) == histogram_of(PAPER, "DHMRS")
    if by_individual:
        assert len(set(log.individuals.to_pylist())) == log.n_cases == 102
    else:
        assert log.individuals is None


@pytest.mark.parametrize("case", range(len(METHODS_WITH_TREES)))
def test_what_is_attacked_is_what_is_released(case: int) -> None:
    """Trees do not depend on case ids or times, but for the digest, which is left as it is here."""
    method, given = METHODS_WITH_TREES[case]
    params = method.Params(**given)
    names = [*"DHMRS"]
    variants = histogram_of(PAPER, names)
    release = releases_of(method, params, names, keys())
    for number in range(3):
        log = _log_of(variants, names, method, params)
        made = anonymise([log], method, params, release_key(number), "audit", "")
        assert release(variants) == made.products.by_name["tree"].tree


def test_methods_that_release_trees_are_known() -> None:
    found = {
        name
        for name, method in METHODS.items()
        if releases_trees(method, method.Params(**method.examples[0]))
    }
    assert found == {"process-tree", "dpim"}


# --- the command ----------------------------------------------------------------------------------


@pytest.fixture
def log(tmp_path: Path) -> Path:
    cases = itertools.chain(*([variant] * n for variant, n in PAPER.items()))
    rows = [
        (f"jane-{case}", NAMES[letter], f"2026-01-{1 + case % 28:02d}T1{step}:00:00+00:00")
        for case, variant in enumerate(cases)
        for step, letter in enumerate(variant)
    ]
    (tmp_path / "public.txt").write_text("Register\nHospitalize\nDischarge\n", encoding="utf-8")
    return csv_log(tmp_path / "log.csv", rows)


def run(log: Path, method: str, *flags: object) -> int:
    report = log.parent / "report.json"
    return tracecloak(
        "attack",
        "config",
        "--log",
        log,
        "--method",
        method,
        *flags,
        "--releases",
        16,
        "--report",
        report,
    )


@pytest.mark.parametrize("method", [at_night("process-tree"), at_night("dpim")])
def test_reports_say_what_the_difference_tells_and_nothing_of_the_log(
    log: Path, method: str, capsys: pytest.CaptureFixture[str]
) -> None:
    flags = ["--stop_probability", "0.2"] if method == "dpim" else ["--n_sizes", "1"]
    public = log.parent / "public.txt"
    assert run(log, method, "--epsilon", "1", "--vocabulary", public, *flags) == 0
    found = json.loads((log.parent / "report.json").read_text(encoding="utf-8"))
    text = (log.parent / "report.md").read_text(encoding="utf-8")
    printed = capsys.readouterr()
    assert text.splitlines()[0] == printed.out.splitlines()[0] == INTERNAL
    part = found["audited"]["difference_attack"]
    # Of Oncology and Surgery the public names say nothing, so __other__ follows itself but once.
    assert part["n_exposed"] == 2
    assert "2 cases of your log take a step that no other case takes" in text
    assert len(part["guesses"]) == 2
    for guess in part["guesses"]:
        share = guess["n_right"] / guess["n_games"]
        plain = guess["n_right_plain"] / guess["n_games"]
        row = (
            f"| {guess['asked']} | {guess['n_games']} | {1 / guess['n_candidates']:.0%} | "
            f"{guess['n_right_plain']} ({plain:.0%}) | {guess['n_right']} ({share:.0%}) | "
            f"{guess['largest_share']:.1%} |"
        )
        assert row in text
        assert (
            f"difference {guess['asked']}: {plain:.0%} right without noise, {share:.0%} with, "
            f"{guess['largest_share']:.1%} allowed by the claim"
        ) in printed.out
        assert guess["epsilon"] <= found["audited"]["epsilon"]
    presence = part["guesses"][0]
    assert presence["n_right_plain"] == presence["n_games"]
    for name in ("jane", "Oncology", "Surgery"):
        assert name not in text + json.dumps(found) + printed.out + printed.err


@pytest.mark.slow
def test_a_refuted_claim_ends_with_5_and_says_why(
    log: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    register(monkeypatch, MinerOfTheExactLog())
    public = log.parent / "public.txt"
    assert run(log, "process-tree", "--epsilon", "1", "--vocabulary", public) == 5
    found = json.loads((log.parent / "report.json").read_text(encoding="utf-8"))
    assert found["is_refuted"]
    presence = found["audited"]["difference_attack"]["guesses"][0]
    assert found["audited"]["epsilon"] >= presence["epsilon"] > 1
    games = presence["n_games"]  # the slower the machine, the fewer
    assert 16 <= games <= 100
    why = (
        f"the difference attack proves epsilon >= {presence['epsilon']:.3f}: {games} of {games} "
        "guesses whether a case is in the log were right"
    )
    assert why in found["refutations"]
    assert why in capsys.readouterr().err


def test_without_trees_there_is_no_such_part() -> None:
    method = VariantHistogramMethod()
    report = attack(method, method.Params(epsilon="1"), [paper_log()], 16, keys=keys())
    assert report.difference is None and report.guesses == ()
    assert report.to_json()["audited"]["difference_attack"] is None
    assert not any("ifference" in line for line in report.markdown_lines())
    assert not any("difference" in line for line in report.summary_lines())


def test_a_report_without_a_finite_claim_says_that_any_share_is_allowed() -> None:
    method = Dpim()
    params = method.Params(epsilon="1", stop_probability="1")
    report = attack(method, params, [paper_log()], 16, seconds=0.0, keys=keys())
    assert report.guarantee.epsilon is None and report.refutations == ()
    lines = [*report.markdown_lines()]
    assert sum("| any share |" in line for line in lines) == 2
    assert sum("any share allowed by the claim" in line for line in report.summary_lines()) == 2


def test_without_a_log_there_is_nothing_to_attack() -> None:
    method = Dpim()
    params = method.Params(epsilon="9", vocabulary=("A",), stop_probability="1")
    report = attack(method, params, [], 16, seconds=0.0, keys=keys())
    assert report.difference is None


def test_the_bounds_of_the_attack_share_the_confidence() -> None:
    """Those of pairs, of canaries and of the two questions are together as sure as is asked."""
    method = Dpim()
    params = method.Params(epsilon="9", vocabulary=("A",), stop_probability="1")
    report = attack(method, params, [paper_log()], 16, seconds=0.0, keys=keys())
    each = [1 - finding.confidence for finding in report.pairs]
    assert len(report.guesses) == 2
    assert sum(each) + 3 * each[0] == pytest.approx(1 - report.confidence, rel=1e-6)
    assert np.allclose(each, each[0])
