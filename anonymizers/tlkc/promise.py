"""What TLKC privacy and its baselines promise: their parameters, and whether a log keeps them.

The check is written apart from the methods, so that a fault of one is not a fault of both: it goes
through all that can be known, depth first, and skips nothing because of what it found before. It
looks at nothing but released cases. Definition 14 of Rafiei, van der Aalst: Group-Based Privacy
Preservation Techniques for Process Mining, with the knowledge of nothing as length 0, and with
missing values as no sensitive values.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from fractions import Fraction
from itertools import pairwise
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pydantic
from pydantic import AwareDatetime, Field

from tracecloak.anonymizers.contract import method as contract
from tracecloak.schemas.errors import GuaranteeError
from tracecloak.schemas.events.declarations import Attribute, Declarations, declared
from tracecloak.schemas.events.traces import TraceBatch
from tracecloak.schemas.statistics import background_knowledge

# Times count from here in every case: the microseconds of this instant.
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class KnowledgeParams(contract.Params):
    """What every method of the family takes."""

    k: int = Field(default=20, ge=1, le=10**9)
    """K: how many released cases match whatever is known of one of them. More costs more events."""

    perspective: background_knowledge.Perspective = "activity"
    """What is known of events: activity, resource, or activity_resource, both together."""

    time_unit: background_knowledge.TimeUnit = "hours"
    """T: the accuracy of released times, which are counted from each case's first event; a finer
    one costs far more events where times are known."""

    resources: Declarations = Field(default_factory=dict)
    """One attribute of events with its values: the resource, which is released with them. It is
    needed where the perspective has it, and by default there is none; any other value is released
    as none."""

    initial_time: AwareDatetime = _EPOCH
    """When every released case begins: a public instant."""

    @pydantic.model_validator(mode="after")
    def _resource_goes_with_perspective(self) -> KnowledgeParams:
        named = declared(self.resources)
        if (self.perspective == "activity") != (not named):
            raise ValueError(
                "resources go with the perspectives resource and activity_resource, and they "
                f"need them; perspective is {self.perspective}"
            )
        if named and (len(named) > 1 or named[0].is_of_case or named[0].declaration.values is None):
            raise ValueError("resources must be one attribute of events, declared by its values")
        return self

    @property
    def sensitive_attributes(self) -> tuple[Attribute, ...]:
        """The sensitive attributes in the order of their declaration; by default there is none."""
        return ()

    def knowledge(self, kind: background_knowledge.Kind) -> background_knowledge.Knowledge:
        """Returns what may be known, of a kind."""
        resource = next(iter(declared(self.resources)), None)
        return background_knowledge.Knowledge(kind, self.perspective, self.time_unit, resource)


class KAnonymousParams(KnowledgeParams):
    """Parameters of the two baselines."""

    knowledge_kind: Literal["sequence", "relative"] = "sequence"
    """What makes cases alike: the sequence of their events' elements, or relative: that and all
    times since the first event, to the time_unit."""


class TlkcParams(KnowledgeParams):
    """Parameters of TLKC privacy."""

    length: int = Field(default=2, ge=1, le=20)
    """L: how many elements may be known of a case. More costs more events and more time."""

    confidence: float = Field(default=0.5, gt=0, le=1)
    """C: the largest share of a sensitive value among the cases that match what is known; above
    0.5 a case may be as good as alone with its value. Lower costs more events."""

    knowledge_kind: background_knowledge.Kind = "relative"
    """How the known elements are put together: set, multiset, sequence, or relative: a sequence
    with all times since the case's first event, to the time_unit."""

    sensitive: Declarations = Field(default_factory=dict)
    """Sensitive attributes of the case, released with it: texts with their values, numbers with
    bounds, of which the quartiles of the log make low, middle and high. What is not declared is
    released as no value and counts as none. By default there is none, and only k holds."""

    algorithm: Literal["n_score", "frequent_traces"] = "n_score"
    """What suppression is to cost least: n_score, cases with the element (Algorithm 2), or
    frequent_traces, maximal frequent traces (Algorithm 1)."""

    profile: Literal["sparing", "paper"] = "sparing"
    """How events are chosen that go: sparing gives back what need not go, and decides equal scores
    by what costs least; paper draws one of equal scores, gives nothing back, and of a multiset
    suppresses all events of an element. Both keep the same promise."""

    alpha: float = Field(default=0.5, ge=0, le=1)
    """Of n_score: weight of the violations that a suppression removes, from 0 to 1; the cases that
    lose an event have the rest."""

    theta: float = Field(default=0.5, gt=0, le=1)
    """Of frequent_traces: the share of all cases from which on a subtrace is frequent, above 0 and
    at most 1. Where a small one makes very many frequent, only the shorter ones of them count."""

    @pydantic.model_validator(mode="after")
    def _sensitive_are_of_cases(self) -> TlkcParams:
        if not all(attribute.is_of_case for attribute in declared(self.sensitive)):
            raise ValueError("sensitive must be attributes of the case, named case:NAME")
        return self

    @property
    def sensitive_attributes(self) -> tuple[Attribute, ...]:
        """The sensitive attributes in the order of their declaration."""
        return declared(self.sensitive)

    @property
    def exact_confidence(self) -> Fraction:
        """The confidence as it is written in decimals."""
        return Fraction(str(self.confidence))


# --- Does a released log keep it? -----------------------------------------------------------------


def verify_released(released: Sequence[TraceBatch], params: KAnonymousParams | TlkcParams) -> None:
    """Checks that a log satisfies the requirement.

    Args:
        released: All of its cases, as they were released or as they are read from its files.
        params: What it is held to.

    Raises:
        GuaranteeError: It does not.
    """
    broken = []
    if isinstance(params, TlkcParams):
        n_too_few, n_too_sure = count_violations(released, params)
        if n_too_few:
            broken.append(f"k={params.k}: some knowledge matches fewer cases")
        if n_too_sure:
            broken.append(f"confidence={params.confidence:g}: a sensitive value is more certain")
    elif has_rare_variant(released, params):
        broken.append(f"k={params.k}: a variant has fewer cases")
    if broken:
        raise GuaranteeError(
            f"the released log does not keep {'; nor '.join(broken)}. It must not be published; "
            "anonymise the input again with these parameters"
        )


def count_violations(released: Sequence[TraceBatch], params: TlkcParams) -> tuple[int, int]:
    """Goes through all knowledge of a log, that of nothing too.

    A log that violates much takes long: every piece of knowledge that occurs is looked at.

    Returns:
        (pieces of knowledge that match fewer than k cases; those that match enough, and a sensitive
        value has too large a share among these).
    """
    if not released:
        return 0, 0
    traces = TraceBatch.concat(released)
    coded = _elements_of(traces, params).dictionary_encode().indices
    known = np.asarray(coded.is_valid())
    codes = np.asarray(pc.fill_null(coded, -1), np.int64)[known]
    case = np.repeat(np.arange(traces.n_cases), traces.lengths)[known]
    if params.knowledge_kind in ("set", "multiset"):
        in_order = np.lexsort((codes, case))
        case, codes = case[in_order], codes[in_order]
    if params.knowledge_kind == "set":
        is_new = np.ones(len(case), bool)
        is_new[1:] = (case[1:] != case[:-1]) | (codes[1:] != codes[:-1])
        case, codes = case[is_new], codes[is_new]
    offsets = np.searchsorted(case, np.arange(traces.n_cases + 1))
    sensitive = [
        _sensitive_values(traces, name, is_number=declaration.bounds is not None)
        for name, declaration in params.sensitive.items()
    ]
    n_too_few = n_too_sure = 0
    every = np.arange(traces.n_cases)
    for cases in _matches(offsets, codes, params.length, every, offsets[:-1]):
        values = (column[cases] for column in sensitive)
        most = max((int(np.bincount(v[v >= 0]).max(initial=0)) for v in values), default=0)
        if len(cases) < params.k:
            n_too_few += 1
        elif most > params.exact_confidence * len(cases):
            n_too_sure += 1
    return n_too_few, n_too_sure


def has_rare_variant(released: Sequence[TraceBatch], params: KAnonymousParams) -> bool:
    """Returns whether some case has all of its elements in common with fewer than k - 1 others."""
    cases: Counter[tuple[str | None, ...]] = Counter()
    for batch in released:
        texts = _elements_of(batch, params).to_pylist()
        cases.update(tuple(texts[first:last]) for first, last in pairwise(batch.offsets.tolist()))
    return min(cases.values(), default=params.k) < params.k


def _elements_of(traces: TraceBatch, params: KAnonymousParams | TlkcParams) -> pa.Array:
    """What is known of each event as one text; null: nothing."""
    activity = traces.vocabulary.names.take(pa.array(traces.activities))
    text = activity
    if params.perspective != "activity":
        [resource] = params.resources
        text = _plain(traces.attributes[resource])
        if params.perspective == "activity_resource":
            # A tab cannot be in a declared resource, so two pairs never make one text.
            text = pc.binary_join_element_wise(pc.fill_null(text, "\t"), activity, "\t")
    if params.knowledge_kind == "relative":
        unit = background_knowledge.UNIT_US[params.time_unit]
        number = np.floor_divide(traces.times, unit)
        first = np.repeat(number[traces.offsets[:-1]], np.diff(traces.offsets))
        time = pa.array(number - first).cast(pa.string())
        text = pc.binary_join_element_wise(time, text, "\t")
    return text.cast(pa.string())


def _sensitive_values(traces: TraceBatch, name: str, *, is_number: bool) -> np.ndarray:
    """int64[n_cases], the number of each case's value or box; -1 for none."""
    values = _plain(traces.attributes[name].take(pa.array(traces.offsets[:-1])))
    if not is_number:
        coded = values.dictionary_encode().indices
        return np.asarray(pc.fill_null(coded, -1), np.int64)
    has_value = np.asarray(values.is_valid())
    boxes = np.full(len(values), -1, np.int64)
    if has_value.any():
        numbers = np.asarray(values.drop_null().cast(pa.float64()))
        lower, upper = np.quantile(numbers, [0.25, 0.75])
        boxes[has_value] = np.where(numbers < lower, 0, np.where(numbers > upper, 2, 1))
    return boxes


def _plain(values: pa.Array) -> pa.Array:
    """The values without a dictionary, which a log that is read again has."""
    return values.cast(values.type.value_type) if pa.types.is_dictionary(values.type) else values


def _matches(
    offsets: np.ndarray, elements: np.ndarray, n_more: int, cases: np.ndarray, places: np.ndarray
) -> Iterator[np.ndarray]:
    """Yields the cases that match a piece of knowledge, and those that match what continues it.

    Args:
        offsets: int64[n_all+1], where the elements of each case begin.
        elements: int64[n_elements], a number for each that is different.
        n_more: How many more elements can be known.
        cases: int64[n], those that match it; of none nothing is yielded.
        places: int64[n], where in `elements` each can continue: after its earliest match.
    """
    if not len(cases):
        return
    yield cases
    n_later = offsets[cases + 1] - places
    if not n_more or not n_later.any():
        return
    whose = np.repeat(np.arange(len(cases)), n_later)
    place = np.arange(len(whose)) + np.repeat(places - np.cumsum(n_later) + n_later, n_later)
    element = elements[place]
    # Of equal elements of a case the earliest counts; cases and places are ascending already.
    order = np.argsort(element, kind="stable")
    element, whose, place = element[order], whose[order], place[order]
    is_earliest = np.ones(len(element), bool)
    is_earliest[1:] = (element[1:] != element[:-1]) | (whose[1:] != whose[:-1])
    element, whose, place = element[is_earliest], whose[is_earliest], place[is_earliest]
    starts = np.flatnonzero(np.diff(element, prepend=-1))
    for first, last in zip(starts, np.append(starts[1:], len(element)), strict=True):
        longer = cases[whose[first:last]], place[first:last] + 1
        yield from _matches(offsets, elements, n_more - 1, *longer)
