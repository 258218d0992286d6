"""Every method is audited from log to release: claims are kept, and what is broken is found.

Keys are fixed, so a failure repeats. A bound exceeds the truth with the probability that is stated
with it; the bounds of all rigorous methods together do so with probability at most 1e-9.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from scipy import stats

from tests.support import broken_methods
from tests.support.audit_bounds import hockey_stick_lower_bound, lowest_bit
from tests.support.keys import release_key
from tests.support.tiers import at_night
from tracecloak.anonymizers.amun.guessing_advantage import (
    epsilon_of_counts,
    epsilon_of_oversampling,
)
from tracecloak.anonymizers.contract.method import Anonymizer
from tracecloak.anonymizers.graphs.private_dfg import PrivateDfg
from tracecloak.anonymizers.logs.private_log import PrivateLog
from tracecloak.anonymizers.noise.release_key import ReleaseKey
from tracecloak.anonymizers.registry import METHODS
from tracecloak.anonymizers.rigorous.budget import UNITS
from tracecloak.anonymizers.trees.process_tree import ProcessTreeMiner
from tracecloak.anonymizers.variants.method import VariantHistogramMethod
from tracecloak.examination.attack.neighbours import Pair, made_up_pairs
from tracecloak.examination.attack.releases import Releases, Watch
from tracecloak.examination.attack.report import PairFinding
from tracecloak.examination.attack.run import audit_pair
from tracecloak.examination.attack.views import before_publication
from tracecloak.examination.audit.bounds import epsilon_lower_bound
from tracecloak.schemas.events.vocabulary import ActivityVocabulary
from tracecloak.schemas.statistics.clipped_flows import ClippedFlows

ALPHA = 1e-9
# One count that changes by 99 of 101: a case that repeats one activity a hundred times.
ONE_LONG_LOOP = {"epsilon": "2", "delta": "0", "vocabulary": ("A",), "max_trace_length": 100}
# Two counts that change by one each.
ONE_EVENT = {"epsilon": "1", "delta": "0", "vocabulary": ("A",), "max_trace_length": 1}


def keys(number: int = 0) -> Iterator[ReleaseKey]:
    return map(release_key, itertools.count(number << 32))


def pair_of(method: Anonymizer, params: Any, told: str) -> Pair:
    (found,) = [pair for pair in made_up_pairs(method, params) if told in pair.what]
    return found


def audit(
    method: Anonymizer,
    example: Mapping[str, Any],
    told: str,
    n: int,
    confidence: float = 1 - 1e-6,
    number: int = 0,
) -> PairFinding:
    params = method.Params(**example)
    delta = method.guarantee(params).delta or 0.0
    shown, pair = before_publication(method), pair_of(method, params, told)
    return audit_pair(pair, shown, params, delta, n, confidence, keys=keys(number))


# --- every rigorous method ------------------------------------------------------------------------

# By name and number of the example. A test below says that they are all: to ask for the guarantees
# here would calibrate every method in every process that collects tests.
RIGOROUS_EXAMPLES: dict[str, tuple[int, ...]] = {
    "amun-rigorous": (0, 1), "auto-variants": (0, 1, 2), "joint-variants": (0, 1, 2, 3),
    "laplace-dfg": (4,), "laplace-levels": (0, 1, 2), "laplace-variants": (2, 3),
    "markov-log": (0, 1, 2), "markov-log-pure": (0, 1, 2), "pripel-rigorous": (0, 1),
    "private-dfg": (0, 1, 2, 3, 4), "private-indicators": (0, 1, 2, 3), "private-log": (0, 1, 2, 3),
    "privtree": (0, 1, 2), "process-tree": (0, 1, 2, 3), "sacofa": (3, 4), "sapa": (3,),
    "sparse-histogram": (0, 1, 2), "variant-histogram": (0, 1, 2),
}  # fmt: skip
RIGOROUS = [(name, k) for name, numbers in RIGOROUS_EXAMPLES.items() for k in numbers]


def test_the_rigorous_examples_are_all_there_are() -> None:
    found = {
        (name, k)
        for name, method in METHODS.items()
        for k, example in enumerate(method.examples)
        if method.guarantee(method.Params(**example)).kind == "rigorous"
    }
    assert set(RIGOROUS) == found


# Two logs that differ in how often a variant is followed, in how long the longest case is, and in
# whether a variant is there: what a scale, a clip and a threshold are for.
TELLING = ("more of it", "repeats one activity", "of a variant of its own")
# Their releases take 10 to 30 ms; parts of them are audited below, with noise that must be found.
SLOW_RELEASES = (
    *("amun-rigorous", "auto-variants", "joint-variants"),
    *("pripel-rigorous", "private-log", "process-tree"),
)


# Of the others less noise is found below, in less time.
_EVERY_TIME = ("laplace-dfg", "private-dfg", "sapa", "sparse-histogram", "variant-histogram")


@pytest.mark.parametrize(
    "name", [name if name in _EVERY_TIME else at_night(name) for name in RIGOROUS_EXAMPLES]
)
def test_no_bound_exceeds_the_claim(name: str) -> None:
    """The first rigorous example, at epsilon 1 or less: so few releases can prove 1.3 at most."""
    method = METHODS[name]
    example = dict(method.examples[RIGOROUS_EXAMPLES[name][0]])
    if "epsilon" in example:
        example["epsilon"] = "1"
    params = method.Params(**example)
    guarantee = method.guarantee(params)
    assert guarantee.epsilon is not None and guarantee.delta is not None
    shown = before_publication(method)
    told = TELLING[2:] if name in SLOW_RELEASES else TELLING
    confidence = 1 - 1e-6 / (len(TELLING) * len(RIGOROUS_EXAMPLES))
    pairs = [pair for pair in made_up_pairs(method, params) if any(t in pair.what for t in told)]
    assert len(pairs) >= len(told)
    for i, pair in enumerate(pairs):
        found = audit_pair(pair, shown, params, guarantee.delta, 150, confidence, keys=keys(i))
        assert found.epsilon <= guarantee.epsilon < found.largest_provable, (pair.what, found)


def n_to_refute(epsilon: float, delta: float, confidence: float) -> int:
    """How many releases of each log can prove twice the factor that the claim allows.

    More of them cost the time of many other tests and prove hardly more: what can be proved grows
    with the logarithm of their number.
    """
    alpha = (1 - confidence) / 2
    for n in range(100, 2000, 20):  # half of them choose what the others measure
        sure, never = alpha ** (2 / n), 1 - alpha ** (2 / n)
        if sure - delta > 2 * math.exp(epsilon) * never:
            return n
    raise ValueError(f"epsilon {epsilon} is too large to be refuted by so few releases")


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize(("name", "k"), RIGOROUS)
def test_no_bound_of_many_releases_exceeds_the_claim(name: str, k: int) -> None:
    """At epsilon 1 or less: no number of releases that ends could refute a larger claim.

    All pairs; of logs with times, whose releases take a third of a second, the one whose threshold
    matters, as each of their parts is audited below.
    """
    method = METHODS[name]
    example = dict(method.examples[k])
    if float(example.get("epsilon", 0)) > 1:
        example["epsilon"] = "1"
    params = method.Params(**example)
    guarantee = method.guarantee(params)
    assert guarantee.epsilon is not None and guarantee.delta is not None
    shown = before_publication(method)
    pairs = made_up_pairs(method, params)
    # What is released follows from the sums: it is looked at more briefly.
    views = [(shown, 1)] if shown is method else [(shown, 1), (method, 4)]
    if name in ("amun-rigorous", "pripel-rigorous", "private-log"):
        pairs, views = [pair for pair in pairs if TELLING[2] in pair.what], views[:1]
    confidence = 1 - ALPHA / (len(RIGOROUS) * len(pairs) * len(views))
    n = n_to_refute(guarantee.epsilon, guarantee.delta, confidence)
    for i, pair in enumerate(pairs):
        for j, (form, part) in enumerate(views):
            found = audit_pair(
                pair, form, params, guarantee.delta, n // part, confidence, keys=keys(2 * i + j)
            )
            assert found.epsilon <= guarantee.epsilon, (pair.what, found.event)
            assert part > 1 or found.largest_provable > guarantee.epsilon + math.log(1.9)


# --- how tight ------------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_counts_of_variant_histogram_use_up_their_epsilon() -> None:
    """About 0.86 is expected of so few with confidence 0.999; the law is tested exactly."""
    found = audit(VariantHistogramMethod(), {"epsilon": "1"}, "more of it", 6000, 0.999)
    assert 0.75 < found.epsilon <= 1


@pytest.mark.slow
def test_the_sums_of_private_dfg_use_up_their_epsilon_where_delta_is_0() -> None:
    found = audit(PrivateDfg(), ONE_LONG_LOOP, "repeats", 5000, 0.999)
    assert 0.75 * 2 < found.epsilon <= 2


@pytest.mark.slow
def test_many_counts_of_variant_histogram_use_up_their_epsilon() -> None:
    """0.945 is expected of 4e4 releases with confidence 0.999 (deviation 0.012)."""
    found = audit(VariantHistogramMethod(), {"epsilon": "1"}, "more of it", 40_000, 0.999)
    assert 0.9 < found.epsilon <= 1


@pytest.mark.slow
def test_many_sums_of_private_dfg_use_up_their_epsilon_where_delta_is_0() -> None:
    """About 1.86 is expected of 4e4 releases with confidence 0.999 (deviation 0.03)."""
    found = audit(PrivateDfg(), ONE_LONG_LOOP, "repeats", 40_000, 0.999)
    assert 0.9 * 2 < found.epsilon <= 2


def smallest_epsilon(
    ratio: float, delta: float, choices: Sequence[float] = (), instead: float = 0.0
) -> float:
    """The epsilon of Gaussian noise of deviation 1 / ratio at sensitivity 1, after choices.

    Balle, Wang 2018; a choice is at worst a randomised response (Kairouz, Oh, Viswanath 2015).
    Whatever its outcome, something else of the delta `instead` may be done in place of the sums.
    """

    def of_noise(epsilon: float) -> float:
        a, b = ratio / 2 - epsilon / ratio, -ratio / 2 - epsilon / ratio
        return float(stats.norm.cdf(a) - math.exp(epsilon) * stats.norm.cdf(b))

    def delta_at(epsilon: float) -> float:
        losses = itertools.product(*((choice, -choice) for choice in choices))
        return sum(
            math.prod(1 / (1 + math.exp(-loss)) for loss in each)
            * max(of_noise(epsilon - sum(each)), instead)
            for each in losses
        )

    low, high = sum(choices), 100.0
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if delta_at(middle) > delta else (low, middle)
    return high


@pytest.mark.parametrize("k", [0, 3])
def test_the_gaussian_sums_of_private_dfg_use_up_their_epsilon(k: int) -> None:
    """By the exact law, as no number of releases shows what happens once in a million."""
    params = PrivateDfg.Params(**PrivateDfg.examples[k])
    epsilon, delta = params.budget
    [spend] = PrivateDfg().spends(params)
    assert not any(block.delta for block in spend.blocks)
    assert [block.what for block in spend.blocks] == [
        *["edges clip"] * (k == 3), "edges", "edges beyond"
    ]  # fmt: skip
    assert [what for what, _ in spend.choices] == ["kind", "votes"] * (k == 3)
    choices = [float(chosen) for _, chosen in spend.choices]
    # What is done in place of the sums has the epsilon that the choices leave, and less delta.
    for way in spend.instead:
        assert sum(own for _, own in (*spend.choices, *way.parts)) == epsilon
    instead = max((float(way.delta) for way in spend.instead), default=0.0)
    assert instead <= delta / 2

    def exact(scale: float = 1, *changed: int) -> float:
        """Where noise has so much of its scale, and the blocks change by so many times more."""
        times = changed or [1] * len(spend.blocks)
        squared = sum(
            (n * float(block.sensitivity) / (scale * block.scale[0] / block.scale[1])) ** 2
            for n, block in zip(times, spend.blocks, strict=True)
        )
        return smallest_epsilon(math.sqrt(squared), float(delta), choices, instead)

    assert 0.999 * epsilon < exact() <= epsilon
    # The controls: 85 % of the scale, and a sensitivity of one case where there are more.
    assert exact(0.85) > epsilon
    for i in range(len(spend.blocks)):
        times = [1] * len(spend.blocks)
        times[i] = 2
        assert exact(1, *times) > epsilon


def test_a_case_of_the_pairs_reaches_the_clip() -> None:
    """So the exact law above is that of a pair of logs: the vector is as long as is allowed."""
    method = PrivateDfg()
    params = method.Params(**method.examples[0])
    clip = params.public_clip_units
    assert clip is not None
    vocabulary = ActivityVocabulary.public(params.vocabulary or ())
    norms = []
    for told in ("repeats", "no pair twice"):
        pair = pair_of(method, params, told)
        unit = pair.with_unit.take(np.array([pair.with_unit.n_cases - 1]))
        flows = ClippedFlows.from_traces(unit.recode_public(vocabulary), clip, UNITS)
        norms.append(math.sqrt((flows.values.astype(float) ** 2).sum()))
    assert 0.99 * clip < max(norms) <= clip


# --- the parts of a timed log ---------------------------------------------------------------------

SMALL: dict[str, Any] = {
    "epsilon": "2", "delta": "0", "vocabulary": ("A",), "max_trace_length": 2,
    "first_date": "2020-01-01", "last_date": "2020-01-31", "n_duration_bins": 4,
    "granularity": "second", "variants": "sparse-histogram",
}  # fmt: skip
OF_EVENTS = {"attributes": {"org:resource": {"values": ["R1", "R2"]}}}
OF_CASES = {"attributes": {"case:age": {"bounds": [0, 100], "n_bins": 2, "whole": True}}}
HANDED_OVER = {"attributes": {"org:resource": {"values": ["R1", "R2"], "handovers": True}}}
# By what noise is for: weight that gets nearly all of the budget, other parameters, and the pair of
# logs: one more of a variant, a case of two events, or one with a start or value of its own.
PARTS: dict[str, tuple[str, dict[str, Any], str]] = {
    "number of cases": ("sizes", {}, "more of it"),
    "starts": ("starts", {}, "starts when nobody else does"),
    "case span": ("spans", {}, "repeats"),
    # Of a variant that is released for sure, so that its step counts in three cells.
    "step duration": ("durations", {"vocabulary": ("A", "B")}, "more of it"),
    "attribute/org:resource": ("attributes", OF_EVENTS, "repeats"),
    "handover/org:resource": ("handovers", HANDED_OVER, "repeats"),
    "attribute/case:age": ("attributes", OF_CASES, "values that nobody else has"),
}


def mostly(part: str, **others: Any) -> dict[str, Any]:
    """97 % of the budget for one part; of the rest most is for what makes the log's size known."""
    split = dict.fromkeys(("durations", "spans", "starts", "attributes"), "1")
    return {
        **SMALL,
        "budget_split": {**split, "sizes": "10", "variants": "25", part: "2000"},
    } | others


def audit_of_part(
    purpose: str, method: Anonymizer, n: int, confidence: float = 1 - 1e-6
) -> tuple[float, float]:
    """The bound, and the part's own share of epsilon."""
    part, others, told = PARTS[purpose]
    example = mostly(part, **others)
    means = method.Params(**example).spending.means
    (share,) = (
        float(own.epsilon) for name, own in means.items() if name.startswith(part.rstrip("s"))
    )
    assert 0.97 * 2 < share < 2
    return audit(method, example, told, n, confidence).epsilon, share


@pytest.mark.parametrize(
    "purpose",
    [at_night(purpose) for purpose in PARTS],
)
def test_half_the_noise_on_one_part_of_a_timed_log_is_found(purpose: str) -> None:
    """How close the right noise comes to its share takes more releases: see the next test."""
    broken = broken_methods.private_log_with_half_the_noise(purpose)
    # One cell of many tells, or three together.
    n = {"case span": 700, "step duration": 1500}.get(purpose, 500)
    assert audit_of_part(purpose, broken, n, 0.999)[0] > 2


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("purpose", PARTS)
def test_each_part_of_a_timed_log_uses_up_its_share(purpose: str) -> None:
    """0.78 to 0.90 of it were found; more releases come closer."""
    # A step counts in three cells, which agree in an eighth of the releases and not in half.
    n = 12_000 if purpose == "step duration" else 6_000
    found, share = audit_of_part(purpose, PrivateLog(), n)
    assert 0.75 * share < found <= share


@pytest.mark.slow
@pytest.mark.parametrize(
    ("part", "others"),
    [("durations", {}), ("attributes", OF_EVENTS), ("handovers", HANDED_OVER)],
)
def test_a_clip_that_is_not_applied_is_found(part: str, others: dict[str, Any]) -> None:
    """A loop of 64 events has up to 64 times the norm that the noise was made for."""
    example = mostly(part, **others) | {"delta": "1e-6", "max_trace_length": 64, "l2_clip": "1"}
    for method, is_right in ((PrivateLog(), True), (broken_methods.UnclippedPrivateLog(), False)):
        found = audit(method, example, "repeats", 260, 0.999)
        assert (found.epsilon <= 2) == is_right, found


@pytest.mark.slow
def test_a_third_of_the_noise_on_the_pairs_of_a_tree_is_found() -> None:
    """Nearly all of the budget is for the pairs, of which the case changes all three."""
    example = {
        "epsilon": "2", "delta": "0", "vocabulary": ("A",), "n_sizes": 1, "max_pairs": 3,
        "max_trace_length": 4, "selection_share": "0.01", "ends_share": "0",
    }  # fmt: skip
    methods = (ProcessTreeMiner(), True), (broken_methods.miner_with_a_third_of_the_noise(), False)
    for method, is_right in methods:
        found = audit(method, example, "repeats", 600, 0.999)
        assert (found.epsilon <= 2) == is_right, found


# --- what is broken is found ----------------------------------------------------------------------

# Releases of each log that do: 0.85 of a scale needs most, as its epsilon is 1.18 of the claim.
ENOUGH = {
    "truncated float": 6000,
    "one-sided": 1000,
    "understated sensitivity": 4000,
    "scale x 0.85": 24_000,
    "reused": 300,
}


# Each kind is found on variants or on sums in `make test`, and on the other in CI: what draws the
# noise is the same.
@pytest.mark.parametrize(
    "name",
    [
        at_night(name)
        if name in ("scale x 0.85", "understated sensitivity", "truncated float")
        else name
        for name in broken_methods.NOISES
    ],
)
def test_broken_noise_on_variants_is_found(name: str) -> None:
    method = broken_methods.variant_histogram_with(broken_methods.NOISES[name])
    assert audit(method, {"epsilon": "1"}, "more of it", ENOUGH[name]).epsilon > 1


@pytest.mark.parametrize(
    "name",
    [
        at_night(name) if name == "truncated float" else name
        for name in broken_methods.NOISES
        if name != "scale x 0.85"
    ],
)
def test_broken_noise_on_sums_is_found(name: str) -> None:
    method = broken_methods.private_dfg_with(broken_methods.NOISES[name])
    assert audit(method, ONE_EVENT, "more of it", ENOUGH[name]).epsilon > 1


@pytest.mark.slow
def test_a_scale_of_85_percent_on_sums_is_found() -> None:
    method = broken_methods.private_dfg_with(broken_methods.scale_085)
    assert audit(method, ONE_LONG_LOOP, "repeats", 60_000).epsilon > 2


def test_a_threshold_that_is_too_low_is_found() -> None:
    """A lone variant comes out with probability 0.27, and delta is 1e-6."""
    method = broken_methods.LowThreshold()
    params = method.Params(epsilon="1")
    pair = pair_of(method, params, "one case of a variant of its own")
    found = audit_pair(pair, method, params, 1e-6, 800, 1 - 1e-6, keys=keys())
    assert found.epsilon > 1
    a, b = (
        Releases([log], method, params, keys(i)).sample(1500, Watch(pair.variants))
        for i, log in enumerate((pair.with_unit, pair.without_unit))
    )
    delta = hockey_stick_lower_bound(a, b, 1.0, 1 - 1e-6)
    truth = math.exp(-1) / (1 + math.exp(-1))
    # Of 750 measured releases it is half of the truth, with a deviation of 0.06 of it.
    assert 1e-6 < 0.25 * truth < delta <= truth
    # The right threshold, which would take 3e6 releases to be seen passed, shows nothing.
    right = VariantHistogramMethod()
    assert audit(right, {"epsilon": "1"}, "one case of a variant of its own", 400).epsilon == 0


@pytest.mark.slow
def test_float_noise_is_found_by_its_last_bits() -> None:
    """Sums of 0 and of 1 with raw float noise: the floats that 1 + noise reaches are coarser.

    Rounded to integers nothing is left of it: `laplace_by_inversion` is told by no bit, and what is
    wrong with it, tails that end and probabilities that are off by 1e-16, by no number of releases.
    """
    bits, values = {}, {}
    for noise in (broken_methods.raw_float, broken_methods.by_inversion):
        method = before_publication(broken_methods.private_dfg_with(noise))
        params = method.Params(**ONE_EVENT)
        pair = pair_of(method, params, "an empty log")
        a, b = (
            Releases([log], method, params, keys(i)).sample(4000, Watch(pair.variants))
            for i, log in enumerate((pair.with_unit, pair.without_unit))
        )
        name = noise.__name__
        bits[name] = epsilon_lower_bound(lowest_bit(a), lowest_bit(b), 0.0, 1 - 1e-6).epsilon
        values[name] = epsilon_lower_bound(np.rint(a), np.rint(b), 0.0, 1 - 1e-6).epsilon
    assert bits["raw_float"] > 2 > 1 >= bits["by_inversion"]
    assert max(values.values()) <= 1


# --- what was published ---------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["sampling", at_night("filtering"), at_night("oversampling")])
def test_no_mode_of_amun_keeps_the_papers_epsilon(mode: str) -> None:
    """At g = 0.2; the bound grows with the number of releases, as no epsilon is finite.

    The variant comes out in half of them: 200 measured ones prove 1.5, with a deviation of 0.11.
    """
    method = METHODS["amun"]
    example = {"guessing_advantage": 0.2, "mode": mode, "time_precision_us": 1}
    assert epsilon_of_counts(0.2) == pytest.approx(0.811, abs=1e-3)
    claimed = epsilon_of_oversampling(0.2) if mode == "oversampling" else epsilon_of_counts(0.2)
    few, many = (
        audit(method, example, "one case of a variant of its own", n).epsilon for n in (60, 400)
    )
    assert many > few
    assert many > claimed
