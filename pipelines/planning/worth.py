"""What a release will be worth, before it: the method run on made-up logs, which cost nothing.

A made-up log has the declared activities, or some of its own where they are bought, and a number
of cases that is given. Its process is a plausible one and nobody's: a main path along the names,
from which a case can leave out a step, go back to one, or end early. What comes out of the method,
with noise as a release would have it, is compared with what went in. No input is read, so a plan
can say it of every size. A real process that is more regular comes out better, and one that is less
regular comes out worse.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from tracecloak.anonymizers.contract import in_memory
from tracecloak.anonymizers.contract.figure_error import FigureError
from tracecloak.anonymizers.contract.method import Anonymizer, Decision
from tracecloak.anonymizers.noise.randomness import Randomness
from tracecloak.anonymizers.noise.release_key import KEY_BYTES, ReleaseKey
from tracecloak.pipelines.planning.advice import LONGEST_CASE, n_courses
from tracecloak.schemas.arrays.merging import offsets_of
from tracecloak.schemas.arrays.sequences import encode_sequences
from tracecloak.schemas.errors import TracecloakError
from tracecloak.schemas.events.traces import TraceBatch
from tracecloak.schemas.events.vocabulary import ActivityVocabulary
from tracecloak.schemas.published.counted import yield_of_log
from tracecloak.schemas.published.graph import ReleasedGraph
from tracecloak.schemas.published.variants import ReleasedVariants
from tracecloak.schemas.published.yields import Yield
from tracecloak.schemas.statistics.directly_follows import DirectlyFollows
from tracecloak.schemas.statistics.variants import VariantHistogram

# Sizes of made-up logs where none is given, and how often each is released: the middle one is told.
SIZES = (100, 1_000, 10_000)
_RUNS = 3
Kind = Literal["graph", "variants", "tree", "figures"]
"""What a release can be good at: counts of a graph, variants, a tree, or a list of figures."""
# A log of so many names takes long to make, and the errors of its many counts add up: one run does.
_MANY_NAMES = 100

_MADE_UP = tuple(f"activity {i}" for i in range(1, 13))
# From 2020-01-01 on, cases all over a year, an hour between events.
_BEGIN_US, _YEAR_US, _HOUR_US = 1_577_836_800_000_000, 31_536_000_000_000, 3_600_000_000
# A step departs from the main path with up to this probability, another one in every case: then it
# leaves out the next activity, goes back by one, goes anywhere, or is the last, in these shares.
USUAL, ORDERLY = 0.4, 0.05
_SKIP, _BACK, _ANYWHERE = 0.3, 0.3, 0.3
# A graph whose counts are off by more says nothing, and neither do variants that have less than
# this share of the cases.
_USELESS_ERROR, _USELESS_SHARE = 0.9, 0.1
# A case of 15 different steps has 16 pairs, so a vector of this norm, to which a bought clip comes
# near in logs of such cases.
_USUAL_CLIP = 4.0


@dataclass(frozen=True)
class Worth:
    """What came out of a made-up log.

    Attributes:
        n_cases: Of the made-up log.
        held: What came out.
        n_names: Activities of the made-up log.
        case_share: Of its cases, the share whose variant came out; None without variants.
        graph_error: Sum of the errors of all directly-follows counts to the sum of the counts, 0 to
            any number; 1 is what publishing nothing gives. None where no counts came out.
        refusal: Why nothing came out, or empty.
        errors: Of a list of figures how far each is off, which needs no log.
        noise_share: Deviation of the noise of the pairs of a tree to the number of cases; None:
            what is released has counts to compare, or nobody can tell.
    """

    n_cases: int
    held: Yield
    n_names: int
    case_share: float | None
    graph_error: float | None
    refusal: str = ""
    errors: tuple[FigureError, ...] = ()
    noise_share: float | None = None

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
    """Ends a run whose variants are drawn: neither the graph nor the variants need its times."""

    def __init__(self, variants: ReleasedVariants) -> None:
        super().__init__()
        self.variants = variants


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


def worth_of(
    method: Anonymizer, params: Any, n_cases: int, run: int = 0, departing: float = USUAL
) -> Worth:
    """Runs the method on a made-up log of so many cases.

    Nobody is in that log, so its key is public as well: what comes out follows from the arguments.

    Args:
        method: The method.
        params: Its parameters.
        n_cases: Cases of the made-up log.
        run: Which of several runs it is; each has noise of its own.
        departing: See `made_up_log`.
    """
    if errors := method.figure_errors(params, n_cases):
        return Worth(n_cases, Yield(n_figures=len(errors)), 0, None, None, errors=errors)
    bounds = method.bounds(params)
    names = bounds.vocabulary or _MADE_UP
    length = min(bounds.max_trace_length or LONGEST_CASE, LONGEST_CASE)
    by_individual = bounds.max_cases_per_individual is not None
    traces = made_up_log(names, length, n_cases, by_individual, departing)
    key = ReleaseKey(run.to_bytes(KEY_BYTES, "big"))
    try:
        draws = _UntilVariants() if method.log == "generated" else None
        release = in_memory.anonymise(
            [traces], method, params, key, "made up", "made up", draws=draws
        )
    except _VariantsDrawn as drawn:
        return _of_log(_Log.of_traces([traces]), _Log.of_variants(drawn.variants), Yield())
    except TracecloakError as error:
        return Worth(n_cases, Yield(), len(names), None, None, str(error))
    held = release.products.held
    graphs = [p for p in release.products.by_name.values() if isinstance(p, ReleasedGraph)]
    true = _Log.of_traces([traces])
    if graphs:
        off = _error(true.pairs, _pairs_of_graph(graphs[0]))
        return Worth(n_cases, held, len(names), None, off)
    if not release.traces:
        noise_share = noise_share_of(method, params, n_cases)
        return Worth(n_cases, held, len(names), None, None, noise_share=noise_share)
    return _of_log(true, _Log.of_traces(release.traces), held)


def worth_at(method: Anonymizer, params: Any, n_cases: int, departing: float = USUAL) -> Worth:
    """Runs the method a few times on a made-up log of so many cases; returns the middle one.

    Of a whole log of many names one run is enough.
    """
    runs = [worth_of(method, params, n_cases, 0, departing)]
    if runs[0].graph_error is not None and not is_slow(method, runs[0].n_names):
        runs += [worth_of(method, params, n_cases, run, departing) for run in range(1, _RUNS)]
        runs.sort(key=lambda run: run.graph_error or 0.0)
    return runs[len(runs) // 2]


def is_slow(method: Anonymizer, n_names: int) -> bool:
    """Returns whether a run on a made-up log takes seconds: a whole log of many names."""
    return method.log != "none" and n_names >= _MANY_NAMES


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


@lru_cache(maxsize=2)  # of which a plan tries many configurations
def made_up_log(
    names: tuple[str, ...],
    max_length: int,
    n_cases: int,
    by_individual: bool,
    departing: float = USUAL,
) -> TraceBatch:
    """Returns a log of a plausible process along the names; the same numbers give the same log.

    Where there are more names than a case has events, cases begin at several places along them: the
    process has as many courses, and all names are in use.

    Args:
        names: Activities, at least one.
        max_length: Events of a case at most.
        n_cases: Cases.
        by_individual: Whether each case is one individual's.
        departing: The largest probability of a step to depart from the main path.
    """
    place = np.arange(n_cases, dtype=np.int64) % n_courses(len(names), max_length) * max_length
    walks = np.full((n_cases, max_length), -1, np.int64)
    number = np.arange(1, n_cases + 1, dtype=np.float64)
    goes_on = np.ones(n_cases, bool)
    departs = departing * np.modf(number * math.sqrt(2))[0]
    for step in range(max_length):
        walks[goes_on, step] = place[goes_on]
        # Multiples of an irrational number, another one at every step, fill [0, 1) evenly.
        chance = np.modf(number * math.sqrt(step + 2.5))[0]
        how = np.where(chance < departs, chance / departs, 1.0)
        beyond = (how - _SKIP - _BACK) / _ANYWHERE
        # The square root of what is left goes to the later names more often.
        anywhere = (np.sqrt(np.clip(beyond, 0, 1)) * len(names)).astype(np.int64)
        departed = np.select(
            [how < _SKIP, how < _SKIP + _BACK, beyond < 1],
            [place + 2, place - 1, np.minimum(anywhere, len(names) - 1)],
            len(names),
        )
        place = np.maximum(np.where(chance < departs, departed, place + 1), 0)
        goes_on &= place < len(names)
    is_event = walks >= 0
    vocabulary = ActivityVocabulary.of(names)
    codes = vocabulary.codes(pa.array(names, pa.string()))
    lengths = is_event.sum(axis=1)
    starts = _BEGIN_US + (np.modf(number * math.sqrt(1.5))[0] * _YEAR_US).astype(np.int64)
    times = starts[:, None] + np.arange(max_length) * _HOUR_US
    ids = pa.array([str(i) for i in range(n_cases)], pa.string())
    return TraceBatch(
        ids,
        offsets_of(lengths),
        codes[walks[is_event]].astype(np.int32),
        times[is_event],
        vocabulary,
        ids if by_individual else None,
    )


_Pairs = dict[tuple[str, str], float]


@dataclass(frozen=True)
class _Log:
    """A log, by its variants and what their codes mean."""

    variants: VariantHistogram
    words: ActivityVocabulary

    @classmethod
    def of_traces(cls, batches: list[TraceBatch]) -> _Log:
        words = ActivityVocabulary.merge([batch.vocabulary for batch in batches])
        counted = [VariantHistogram.from_traces(batch.recode(words)) for batch in batches]
        return cls(VariantHistogram.merge(counted), words)

    @classmethod
    def of_variants(cls, released: ReleasedVariants) -> _Log:
        sequences = encode_sequences(released.offsets, released.codes)
        variants = VariantHistogram.from_sequences(sequences, released.counts)
        return cls(variants, ActivityVocabulary(released.names))

    @property
    def graph(self) -> DirectlyFollows:
        return DirectlyFollows.from_variants(self.variants, self.words)

    @property
    def pairs(self) -> _Pairs:
        graph, labels = self.graph, self.words.labels
        rows = zip(graph.sources, graph.targets, graph.counts.tolist(), strict=True)
        return {(labels[a], labels[b]): float(count) for a, b, count in rows}

    @property
    def cases(self) -> dict[tuple[str, ...], int]:
        """Cases by variant."""
        labels, ends = self.words.labels, self.variants.offsets.tolist()
        events = [labels[code] for code in self.variants.codes.tolist()]
        variants = (tuple(events[a:b]) for a, b in pairwise(ends))
        return dict(zip(variants, self.variants.counts.tolist(), strict=True))


def _of_log(true: _Log, released: _Log, held: Yield) -> Worth:
    held = yield_of_log(released.graph, released.variants, released.words).beside(held)
    cases, came_out = true.cases, released.cases
    n_cases = sum(cases.values())
    share = sum(count for variant, count in cases.items() if variant in came_out) / n_cases
    return Worth(n_cases, held, len(true.words), share, _error(true.pairs, released.pairs))


def in_words(kind: Kind, *shortfalls: float) -> str:
    """Returns how good a release is in a few words; of several shortfalls, the first instead."""
    words = {
        "graph": "counts off by about {}",
        "variants": "variants of {} of the cases",
        "tree": "noise of {} of the cases",
        "figures": "{} of the figures of use",
    }
    return words[kind].format(" instead of ".join(in_percent(kind, one) for one in shortfalls))


def in_percent(kind: Kind, shortfall: float) -> str:
    """Returns the number by which a kind is told: what is off, or of others what is there."""
    return percent(shortfall if kind in ("graph", "tree") else 1 - shortfall)


def percent(share: float) -> str:
    """Returns a share in percent, as somebody would say it: 0.4 %, 3 %, 28 %."""
    percent = 100 * share
    digits = 0 if percent >= 1 or percent == 0 else 1 - math.floor(math.log10(percent)) - 1
    return f"{percent:.{digits}f} %"


def _pairs_of_graph(graph: ReleasedGraph) -> _Pairs:
    rows = zip(graph.sources, graph.targets, graph.counts.tolist(), strict=True)
    return {(graph.labels[a], graph.labels[b]): float(count) for a, b, count in rows}


def _error(true: _Pairs, released: _Pairs) -> float:
    off = sum(abs(true.get(pair, 0.0) - released.get(pair, 0.0)) for pair in true.keys() | released)
    return off / sum(true.values())
