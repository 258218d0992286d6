"""The utility of a release before it is made, by simulated logs, and recommendations."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache, partial
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from tracecloak.anonymizers.contract import in_memory
from tracecloak.anonymizers.contract.method import Anonymizer, Decision, FigureError
from tracecloak.anonymizers.noise.randomness import KEY_BYTES, Randomness, ReleaseKey
from tracecloak.schemas.arrays.merging import offsets_of, ranges
from tracecloak.schemas.errors import TracecloakError
from tracecloak.schemas.events.events import ActivityVocabulary
from tracecloak.schemas.events.traces import TraceBatch
from tracecloak.schemas.published.graph import ReleasedGraph
from tracecloak.schemas.published.manifest import Yield
from tracecloak.schemas.published.variants import ReleasedVariants, variants_of_log
from tracecloak.schemas.statistics.variants import DirectlyFollows, VariantHistogram

# --- Whether a release that is made is mostly noise, by public numbers alone. ---------------------


# Noise is looked at more closely if it is as large as what this share of the cases of a course
# changes. No release with less noise was found to be less than worth it.
_WATCHED_NOISE = Fraction(1, 50)
LARGEST_TRIED = 100_000
"""Cases of the largest log that is made up to try a configuration on."""
LONGEST_CASE = 30
"""Events of a case of such a log, at most."""


def may_be_noise(method: Anonymizer, params: Any, n_cases: int) -> bool:
    """Returns whether a log of so many cases is to be made up before something is said of it.

    That is if noise is large beside them, or where no noise has a scale.

    Args:
        method: A rigorous method.
        params: Its parameters.
        n_cases: Cases of the release.
    """
    if n_cases > LARGEST_TRIED:
        return False
    return not _least_noise(method, params) or is_mostly_noise(method, params, n_cases)


def is_mostly_noise(method: Anonymizer, params: Any, n_cases: int) -> bool:
    """Returns whether noise is large beside what was released, so that `advice_on` is worth asking.

    Args:
        method: A rigorous method.
        params: Its parameters.
        n_cases: Cases of what was released, noise included.
    """
    if n_cases > LARGEST_TRIED:
        return False
    bounds = method.bounds(params)
    length = min(bounds.max_trace_length or LONGEST_CASE, LONGEST_CASE)
    n_courses = max(1, -(-len(bounds.vocabulary or ()) // length))
    n_on_course = Fraction(n_cases, n_courses)
    return _least_noise(method, params) >= _WATCHED_NOISE * n_on_course


def _least_noise(method: Anonymizer, params: Any) -> Fraction:
    """Returns how many cases change a number by as much as its noise; the least of all numbers.

    It is 0 where no noise has a scale, as with choices.
    """
    scales = []
    for part in method.spends(params):
        if part.scale is not None and part.sensitivity:
            scales.append(Fraction(*part.scale) / part.sensitivity)
        scales += [Fraction(*block.scale) / block.sensitivity for block in part.blocks]
    return min(scales, default=Fraction(0))


# ---
# What a release will be worth, before it: the method run on synthetic logs, which cost nothing.
# A synthetic log has the declared activities, or some of its own where they are privately selected,
# and a given number of cases. How far off a release is depends most on how alike its cases are,
# which no public number says. So a synthetic process has one number for it, the exponent of Zipf's
# law: its r-th variant has a share of the cases in proportion to r^-exponent. With 2, four fifths
# of the cases have one of 3 variants; with 1.5, of 15; with 1.15, hardly two cases are alike. A
# variant is another one with some edits, and the first one follows the names. No input is read. A
# range reaches from a regular process to a variable one. Between processes whose cases are as much
# alike, and with the same bounds, errors still differ: by a factor of `WITHIN` or less in 118 of
# 135 cells of public logs, to which nothing here was fitted (`tests/benchmarks/forecasts.py`).


# Sizes of synthetic logs where none is given, and of how many releases the middle one counts.
SIZES = (100, 1_000, 10_000)
_RUNS = 3
Kind = Literal["graph", "variants", "tree", "figures"]
"""What a release can be good at: counts of a graph, variants, a tree, or a list of figures."""
# A log of so many names takes long to make, and the errors of its many counts add up: one run does.
_MANY_NAMES, _MANY_CASES = 100, 20_000

_NAMES = tuple(f"activity {i}" for i in range(1, 13))
# From 2020-01-01 on, cases all over a year, an hour between events.
_BEGIN_US, _YEAR_US, _HOUR_US = 1_577_836_800_000_000, 31_536_000_000_000, 3_600_000_000
# Variants of lower rank have a case each.
_RANKS = 1 << 16
# Some cases are longer than is declared: up to so many times.
_LONGER = 2
# So often a variant is edited until it is a new one.
_TRIES = 20
WITHIN = math.sqrt(3)
"""By what factor an error may differ from that of a synthetic log whose cases are as much alike."""
# A graph whose counts are off by more says nothing, and neither do variants that have less than
# this share of the cases.
_USELESS_ERROR, _USELESS_SHARE = 0.9, 0.1
# A case of 15 different steps has 16 pairs, so a vector of this norm, to which a bought clip comes
# near in logs of such cases.
_USUAL_CLIP = 4.0


@dataclass(frozen=True)
class Process:
    """A synthetic process.

    Attributes:
        exponent: How alike its cases are, see the module; above 1.
        n_variants: How many variants it has; None: there is no bound.
    """

    exponent: float
    n_variants: int | None = None


REGULAR, USUAL, VARIABLE = Process(2.0, 20), Process(1.5), Process(1.1)
_MOST_REGULAR = 2.0  # of processes without a bound on their variants


def processes(n_variants: int | None, n_cases: int) -> tuple[Process, ...]:
    """Returns the processes, from a regular to a variable one, that a log may have.

    Args:
        n_variants: How many variants its cases have; None: that is not known.
        n_cases: Cases of the log.
    """
    if n_variants is None:
        return REGULAR, USUAL, VARIABLE
    # That by which so many cases have so many variants, 2 at most.
    grid = range(int(100 * _MOST_REGULAR), 101, -1)  # in hundredths; the smaller, the more variants
    place = bisect_left(grid, n_variants, key=lambda k: len(_cases_by_rank(k / 100, n_cases)))
    exponent = grid[min(place, len(grid) - 1)] / 100
    return (Process(exponent, n_variants if exponent == _MOST_REGULAR else None),)


def unknown(n_variants: int | None) -> str:
    """Returns what the place in a range depends on."""
    return "how alike your cases are" if n_variants is None else "the process"


@dataclass(frozen=True)
class UtilityEstimate:
    """What came out of a synthetic log.

    Attributes:
        n_cases: Of the synthetic log.
        held: What came out.
        n_names: Activities of the synthetic log.
        case_share: Of its cases, the share whose variant came out; None without variants.
        graph_error: Sum of the errors of all directly-follows counts to the sum of the counts, 0 to
            any number; 1 is what publishing nothing gives. None where no counts came out.
        refusal: Why nothing came out, or empty.
        errors: Of a list of figures how far each is off, which needs no log.
        noise_share: Deviation of the noise of the pairs of a tree to the number of cases; None:
            what is released has counts to compare, or nobody can tell.
        process: Of the synthetic log.
    """

    n_cases: int
    held: Yield
    n_names: int
    case_share: float | None
    graph_error: float | None
    refusal: str = ""
    errors: tuple[FigureError, ...] = ()
    noise_share: float | None = None
    process: Process = USUAL

    def times(self, factor: float) -> UtilityEstimate:
        """Returns one whose error, and whose share of lost cases, is so many times as large."""
        error, share = self.graph_error, self.case_share
        return replace(
            self,
            graph_error=None if error is None else factor * error,
            case_share=None if share is None else max(1 - factor * (1 - share), 0.0),
        )

    @property
    def kind(self) -> Kind | None:
        """What it is judged by; None: nothing can be said of it."""
        if self.errors:
            return "figures"
        if self.graph_error is not None:
            return "graph"
        return None if self.noise_share is None else "tree"

    def shortfall(self, kind: Kind) -> float:
        """Returns how far it is from all that there is, 0; infinite where it has none of a kind."""
        if self.errors:
            return 1 - self.n_usable / len(self.errors) if kind == "figures" else math.inf
        lost = None if self.case_share is None else 1 - self.case_share
        by_kind = {"graph": self.graph_error, "variants": lost, "tree": self.noise_share}
        value = None if self.refusal else by_kind.get(kind)
        return math.inf if value is None else value

    @property
    def n_usable(self) -> int:
        """How many figures of a list are of use."""
        return sum(error.grade != "noise" for error in self.errors)

    @property
    def is_useless(self) -> bool:
        """Whether nobody could do anything with it."""
        if self.errors:
            return self.n_usable == 0
        if self.held.is_empty:
            return True
        error, share = self.graph_error, self.case_share
        return error is not None and error > _USELESS_ERROR and (share or 0.0) < _USELESS_SHARE


class _VariantsDrawn(Exception):  # noqa: N818 - the end of a run, and no fault
    """Ends a run whose variants, its argument, are drawn: what is judged needs no times."""


class _UntilVariants:
    """Ends a run as soon as there are variants, which takes a third of a log's time."""

    def once(
        self, round_name: str, randomness: Randomness, decide: Callable[[], Decision]
    ) -> Decision:
        """Returns what is decided now.

        Raises:
            _VariantsDrawn: Variants are among it.
        """
        decision = decide()
        variants = getattr(decision, "parts", {}).get("variants")
        if isinstance(variants, ReleasedVariants):
            raise _VariantsDrawn(variants)
        return decision


def estimate_utility(
    method: Anonymizer, params: Any, n_cases: int, run: int, process: Process
) -> UtilityEstimate:
    """Runs the method on a synthetic log of so many cases.

    Nobody is in that log, so its key is public as well: the result follows from the arguments.

    Args:
        method: The method.
        params: Its parameters.
        n_cases: Cases of the synthetic log.
        run: Which of several runs it is; each has noise of its own.
        process: Of the synthetic log.
    """
    if errors := method.figure_errors(params, n_cases):
        return UtilityEstimate(n_cases, Yield(n_figures=len(errors)), 0, None, None, errors=errors)
    bounds = method.bounds(params)
    length = min(bounds.max_trace_length or LONGEST_CASE, LONGEST_CASE)
    by_individual = bounds.max_cases_per_individual is not None
    traces = synthetic_log(bounds.vocabulary or _NAMES, length, n_cases, by_individual, process)
    key = ReleaseKey(run.to_bytes(KEY_BYTES, "big"))
    try:
        return replace(estimate_utility_of_log(method, params, traces, key), process=process)
    except TracecloakError as error:
        n_names = len(bounds.vocabulary or _NAMES)
        return UtilityEstimate(n_cases, Yield(), n_names, None, None, str(error), process=process)


def estimate_utility_of_log(
    method: Anonymizer, params: Any, traces: TraceBatch, key: ReleaseKey
) -> UtilityEstimate:
    """Runs the method on a log under a key; nobody may have the result but who may have the log.

    Raises:
        UsageError, GuaranteeError: The method refuses the log, or cannot keep its promise on it.
    """
    n_cases, n_names = traces.n_cases, len(method.bounds(params).vocabulary or _NAMES)
    try:
        draws = _UntilVariants() if method.log == "generated" else None
        release = in_memory.anonymise(
            [traces], method, params, key, "made up", "made up", draws=draws
        )
    except _VariantsDrawn as drawn:
        [variants] = drawn.args
        words = ActivityVocabulary.merge([traces.vocabulary, ActivityVocabulary(variants.names)])
        return _log_estimate(traces, words, variants.counted(words), Yield())
    held = release.products.held
    for graph in release.products.by_name.values():
        if isinstance(graph, ReleasedGraph):
            words = ActivityVocabulary.merge([traces.vocabulary, ActivityVocabulary(graph.names)])
            true = DirectlyFollows.from_traces(traces.recode(words))
            off = true.relative_error(graph.counted(words))
            return UtilityEstimate(n_cases, held, n_names, None, off)
    if release.traces:
        words = ActivityVocabulary.merge([b.vocabulary for b in (traces, *release.traces)])
        counted = [VariantHistogram.from_traces(b.recode(words)) for b in release.traces]
        return _log_estimate(traces, words, VariantHistogram.merge(counted), held)
    noise_share = noise_share_of(method, params, n_cases)
    return UtilityEstimate(n_cases, held, n_names, None, None, noise_share=noise_share)


def median_utility(
    method: Anonymizer, params: Any, n_cases: int, process: Process = USUAL
) -> UtilityEstimate:
    """Runs the method a few times on a synthetic log of so many cases; returns the middle one.

    Of a whole log of many names one run is enough, and of very many cases.
    """
    runs = [estimate_utility(method, params, n_cases, 0, process)]
    is_wide = method.log != "none" and runs[0].n_names >= _MANY_NAMES
    if runs[0].graph_error is not None and not (is_wide or n_cases > _MANY_CASES):
        runs += [estimate_utility(method, params, n_cases, run, process) for run in range(1, _RUNS)]
        runs.sort(key=lambda run: run.graph_error or 0.0)
    return runs[len(runs) // 2]


def ends_at(
    method: Anonymizer, params: Any, n_cases: int, n_variants: int | None
) -> tuple[UtilityEstimate, UtilityEstimate]:
    """Returns the best and the worst that a release of so many cases is likely to be worth."""
    found = processes(n_variants, n_cases)
    worths = [
        median_utility(method, params, n_cases, one) for one in dict.fromkeys((found[0], found[-1]))
    ]
    worths.sort(key=lambda worth: worth.shortfall(worth.kind or "graph"))
    return worths[0].times(1 / WITHIN), worths[-1].times(WITHIN)


def noise_share_of(method: Anonymizer, params: Any, n_cases: int) -> float | None:
    """Returns the deviation of the noise on each directly-follows pair to the number of cases.

    None where it is not known.
    """
    for part in method.spends(params):
        for block in part.blocks:
            if block.what == "pairs":
                deviation = float(Fraction(*block.scale) / block.units)
                return deviation * (_USUAL_CLIP if block.is_per_clip else 1.0) / n_cases
    return None


@lru_cache(maxsize=8)  # of which a plan tries many configurations
def synthetic_log(
    names: tuple[str, ...], max_length: int, n_cases: int, by_individual: bool, process: Process
) -> TraceBatch:
    """Returns a log of a synthetic process; the same arguments give the same log.

    Args:
        names: Activities, at least one.
        max_length: Events of a case that are declared; some cases have up to twice as many.
        n_cases: Cases.
        by_individual: Whether each case is one individual's.
        process: How alike the cases are.
    """
    counts = _cases_by_rank(process.exponent, n_cases, process.n_variants)
    variants = _variants(len(names), max_length, counts)
    vocabulary = ActivityVocabulary.of(names)
    codes = vocabulary.codes(pa.array(names, pa.string()))
    case_numbers = np.repeat(np.arange(len(counts)), counts)
    lengths = np.array([len(variant) for variant in variants])
    offsets = offsets_of(lengths[case_numbers])
    events = ranges(offsets_of(lengths)[:-1][case_numbers], lengths[case_numbers])
    starts = _BEGIN_US + np.arange(n_cases) * (_YEAR_US // n_cases)
    since = np.arange(offsets[-1]) - np.repeat(offsets[:-1], lengths[case_numbers])
    ids = pa.array([str(i) for i in range(n_cases)], pa.string())
    activities = codes[np.concatenate(variants)[events]].astype(np.int32)
    times = np.repeat(starts, lengths[case_numbers]) + since * _HOUR_US
    individuals = ids if by_individual else None
    return TraceBatch(ids, offsets, activities, times, vocabulary, individuals)


def _cases_by_rank(exponent: float, n_cases: int, n_variants: int | None = None) -> np.ndarray:
    """int64[n], cases of each variant by Zipf's law, the most frequent one first."""
    shares = np.arange(1.0, min(n_variants or _RANKS, _RANKS) + 1) ** -exponent
    # The sum of all further shares, whose variants have a case each.
    beyond = 0.0 if n_variants else (_RANKS + 0.5) ** (1 - exponent) / (exponent - 1)
    below = np.cumsum(shares) / (shares.sum() + beyond)
    ranks = np.searchsorted(below, (np.arange(n_cases) + 0.5) / n_cases)
    counts = np.bincount(ranks[ranks < len(shares)])
    return np.append(counts[counts > 0], np.ones(int((ranks == len(shares)).sum()), np.int64))


def _variants(n_names: int, max_length: int, counts: np.ndarray) -> list[list[int]]:
    """Returns so many variants by positions of names: each is an earlier one with edits.

    The more cases a variant has, the more others follow from it. The first one is half as long as a
    case may be.
    """
    draw = partial(next, _numbers())

    def walk(n_events: int) -> list[int]:
        first = int(n_names * draw())
        return [(first + i) % n_names for i in range(n_events)]

    variants = [[i % n_names for i in range(-(-max_length // 2))]]
    known, below = {tuple(variants[0])}, np.cumsum(counts).tolist()
    for rank in range(1, len(counts)):
        variant = list(variants[bisect_right(below, draw() * below[rank - 1], hi=rank - 1)])
        for _ in range(_TRIES):
            at, n_events = int((len(variant) + 1) * draw()), 1
            while draw() < 0.5:
                n_events += 1
            kind = int(5 * draw())
            if kind == 0 and len(variant) > n_events:  # some steps are left out
                del variant[at : at + n_events]
            elif kind == 1:  # what came before is repeated, as often
                variant[at:at] = variant[int(at * draw()) : at] * n_events
            elif kind == 2:  # two are swapped
                variant[max(at - 2, 0) : at] = variant[max(at - 2, 0) : at][::-1]
            elif kind == 3:  # others come between
                variant[at:at] = walk(n_events)
            elif kind == 4:  # it goes on with others, or ends
                variant[at:] = walk(int(2 * draw() * (len(variant) - at)))
            del variant[_LONGER * max_length :]
            # Two edits on average.
            if variant and tuple(variant) not in known and draw() < 0.5:
                break
        known.add(tuple(variant))
        variants.append(variant or [0])
    return variants


def _numbers() -> Iterator[float]:
    """Yields numbers that fill [0, 1) as if at random, always the same (Knuth's MMIX)."""
    state = 1
    while True:
        state = (6364136223846793005 * state + 1442695040888963407) % (1 << 64)
        yield state / (1 << 64)


def _log_estimate(
    true: TraceBatch, words: ActivityVocabulary, came_out: VariantHistogram, held: Yield
) -> UtilityEstimate:
    """What came out as variants, in the codes of a vocabulary of both."""
    cases = VariantHistogram.from_traces(true.recode(words))
    pairs, released = (DirectlyFollows.from_variants(side, words) for side in (cases, came_out))
    held = variants_of_log(came_out, words).came_out().beside(held)
    share = int(cases.counts[cases.is_in(came_out)].sum()) / max(true.n_cases, 1)
    error, n_names = pairs.relative_error(released), len(true.vocabulary)
    return UtilityEstimate(true.n_cases, held, n_names, share, error)


def in_words(kind: Kind, *shortfalls: float, joined: str = " to ") -> str:
    """Returns how good a release is in a few words; of several shortfalls, joined by a word."""
    words = {
        "graph": "counts off by {}",
        "variants": "variants of {} of the cases",
        "tree": "noise of {} of the cases",
        "figures": "{} of the figures of use",
    }
    return words[kind].format(in_percent(kind, *shortfalls, joined=joined))


def in_percent(kind: Kind, *shortfalls: float, joined: str = " to ") -> str:
    """Returns the numbers by which a kind is judged: what is off, or of others what is there."""
    is_off = kind in ("graph", "tree")
    texts = (percent(one if is_off else 1 - one) for one in shortfalls)
    return joined.join(dict.fromkeys(texts))


def percent(share: float) -> str:
    """Returns a share in percent, as somebody would say it: 0.4 %, 3 %, 28 %."""
    percent = 100 * share
    digits = 0 if percent >= 1 or percent == 0 else 1 - math.floor(math.log10(percent)) - 1
    return f"{percent:.{digits}f} %"
