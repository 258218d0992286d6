"""Small event logs as text, random ones, and naive counts of them in plain Python to compare with.

An event is (case, activity, microseconds), and a list of events is in document order. In text a
case is its activities: `{"c1": "A B@5 B"}` has A at minute 0, B at minute 5, and B at minute 6.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st

from tracecloak.schemas.arrays.merging import offsets_of
from tracecloak.schemas.events.events import EVENT_SCHEMA, ActivityVocabulary, event_schema
from tracecloak.schemas.events.traces import TraceBatch
from tracecloak.schemas.published.variants import ReleasedVariants
from tracecloak.schemas.statistics.variants import DirectlyFollows, VariantHistogram

MINUTE = 60_000_000  # microseconds

Event = tuple[str, str, int]
Step = tuple[str, int]
Variant = tuple[str, ...]
Log = Mapping[str, str] | Sequence[Event]


# --- logs -----------------------------------------------------------------------------------------


def events_of(log: Log) -> list[Event]:
    """The events of a log given as text, one case after the other; events stay as they are."""
    if not isinstance(log, Mapping):
        return list(log)
    events = []
    for case, text in log.items():
        minute = -1
        for token in text.split():
            activity, _, given = token.partition("@")
            minute = int(given) if given else minute + 1
            events.append((case, activity, minute * MINUTE))
    return events


def cases_of(log: Log) -> dict[str, list[Step]]:
    """Steps of each case in the order of time; document order breaks ties."""
    cases: dict[str, list[Step]] = {}
    for case, activity, time in events_of(log):
        cases.setdefault(case, []).append((activity, time))
    return {case: sorted(steps, key=lambda step: step[1]) for case, steps in cases.items()}


def event_batch(
    log: Log, index: Sequence[int] | None = None, individuals: Sequence[str | None] | None = None
) -> pa.RecordBatch:
    """Canonical events with their numbers, by default their places in the list.

    With `individuals`, one an event, they have that column too.
    """
    events = events_of(log)
    columns = [
        pa.array([event[0] for event in events], pa.string()).dictionary_encode(),
        pa.array([event[1] for event in events], pa.string()).dictionary_encode(),
        pa.array([event[2] for event in events], pa.int64()),
        pa.array(range(len(events)) if index is None else index, pa.int64()),
    ]
    if individuals is None:
        return pa.RecordBatch.from_arrays(columns, schema=EVENT_SCHEMA)
    columns.append(pa.array(individuals, pa.string()).dictionary_encode())
    return pa.RecordBatch.from_arrays(columns, schema=event_schema(["individual_id"]))


def trace_batch(
    log: Log, names: Iterable[str] | None = None, individuals: Mapping[str, str] | None = None
) -> TraceBatch:
    """Whole cases in the order in which they first appear; built without `TraceBatch.from_events`.

    The vocabulary has `names`, or just the log's own; `individuals` are by case.
    """
    cases = cases_of(log)
    steps = list(itertools.chain(*cases.values()))
    codes = {
        name: code
        for code, name in enumerate(sorted({a for a, _ in steps} if names is None else set(names)))
    }
    return TraceBatch(
        pa.array(list(cases), pa.string()),
        np.cumsum([0, *map(len, cases.values())], dtype=np.int64),
        np.array([codes[activity] for activity, _ in steps], np.int32),
        np.array([time for _, time in steps], np.int64),
        ActivityVocabulary(pa.array(list(codes), pa.string())),
        None if individuals is None else pa.array([individuals[c] for c in cases], pa.string()),
    )


def read_cases(traces: TraceBatch) -> dict[str, list[Step]]:
    """What a batch holds, in the order of its cases; checks its shape on the way."""
    assert traces.offsets.dtype == traces.times.dtype == np.int64
    assert traces.activities.dtype == np.int32
    assert len(traces.offsets) == traces.n_cases + 1 and traces.offsets[0] == 0
    assert traces.offsets[-1] == traces.n_events == len(traces.times)
    names = traces.vocabulary.names.to_pylist()
    steps = [
        (names[code], int(time)) for code, time in zip(traces.activities, traces.times, strict=True)
    ]
    ids = traces.case_ids.to_pylist()
    cases = {
        case: steps[first:last]
        for case, first, last in zip(ids, traces.offsets[:-1], traces.offsets[1:], strict=True)
    }
    assert len(cases) == len(ids), "case ids are distinct"
    return cases


def read_cases_of_individuals(traces: TraceBatch) -> dict[tuple[str, str], list[Step]]:
    """The same by individual and case id, of which the pairs are distinct."""
    pairs = list(zip(traces.individuals.to_pylist(), traces.case_ids.to_pylist(), strict=True))
    assert len(set(pairs)) == len(pairs)
    numbered = pa.array([str(i) for i in range(len(pairs))], pa.string())
    steps = read_cases(replace(traces, case_ids=numbered)).values()
    return dict(zip(pairs, steps, strict=True))


def event_logs(
    max_events: int = 30, n_cases: int = 5, activities: str = "ABC", minutes: int = 3
) -> st.SearchStrategy[list[Event]]:
    """Events of a few cases in any document order; few distinct times, so that many tie."""
    event = st.tuples(
        st.integers(1, n_cases).map("c{}".format),
        st.sampled_from(activities),
        st.integers(0, minutes).map(lambda minute: minute * MINUTE),
    )
    return st.lists(event, max_size=max_events)


def variant_counts(
    activities: str = "ABC", max_length: int = 5, max_variants: int = 8
) -> st.SearchStrategy[dict[Variant, int]]:
    """Variants with their numbers of cases."""
    variant = st.lists(st.sampled_from(activities), min_size=1, max_size=max_length).map(tuple)
    return st.dictionaries(variant, st.integers(1, 9), max_size=max_variants)


def histogram(counts: Mapping[Variant, int], names: Iterable[str] = "ABC") -> VariantHistogram:
    """The histogram of variants given as tuples, from one case after the other."""
    repeated = itertools.chain(*([variant] * n for variant, n in counts.items()))
    log = {f"c{i}": " ".join(variant) for i, variant in enumerate(repeated)}
    return VariantHistogram.from_traces(trace_batch(log, names))


def as_released(counts: Mapping[Any, int]) -> ReleasedVariants:
    """Variants as they are released, in their order; each is its names, or a text of letters."""
    names = sorted({name for variant in counts for name in variant})
    return ReleasedVariants(
        pa.array(names, pa.string()),
        offsets_of(np.array([len(variant) for variant in counts], np.int64)),
        np.array([names.index(name) for variant in counts for name in variant], np.int32),
        np.array(list(counts.values()), np.int64),
        None,
        None,
    )


def read_released(variants: ReleasedVariants) -> dict[Variant, int]:
    """Released variants, in their order; checks their shape on the way."""
    names, counts = variants.names.to_pylist(), variants.counts
    assert variants.offsets.dtype == counts.dtype == np.int64 and variants.codes.dtype == np.int32
    assert (counts > 0).all() and (np.diff(counts) <= 0).all() and names == sorted(names)
    found = {tuple(row["variant"]): row["count"] for row in variants.to_table().to_pylist()}
    assert len(found) == len(counts)
    return found


def log_of(counts: Mapping[str, int], names: str | None = None) -> TraceBatch:
    """Cases of variants whose activities are letters."""
    texts = itertools.chain.from_iterable([variant] * n for variant, n in counts.items())
    return trace_batch({f"c{i}": " ".join(text) for i, text in enumerate(texts)}, names)


# --- the statistics in plain Python ---------------------------------------------------------------


def naive_variants(log: Log) -> Counter[Variant]:
    """Cases by variant."""
    return Counter(tuple(activity for activity, _ in steps) for steps in cases_of(log).values())


def naive_pairs(log: Log) -> Counter[tuple[str, str]]:
    """Occurrences of each directly-follows pair, with start ▶ and end ■."""
    pairs: Counter[tuple[str, str]] = Counter()
    for steps in cases_of(log).values():
        pairs.update(itertools.pairwise(["▶", *(activity for activity, _ in steps), "■"]))
    return pairs


def naive_durations(log: Log) -> dict[str, list[int]]:
    """Microseconds since the predecessor of each event of each case; 0 for a first one."""
    durations = {}
    for case, steps in cases_of(log).items():
        times = [time for _, time in steps]
        durations[case] = [0, *(later - earlier for earlier, later in itertools.pairwise(times))]
    return durations


def read_variants(variants: VariantHistogram, names: Sequence[str]) -> dict[Variant, int]:
    """A histogram with names in place of codes, in its order."""
    offsets, codes = variants.offsets, variants.codes
    return {
        tuple(names[code] for code in codes[offsets[i] : offsets[i + 1]]): int(variants.counts[i])
        for i in range(variants.n_variants)
    }


def read_pairs(
    graph: DirectlyFollows, vocabulary: ActivityVocabulary
) -> dict[tuple[str, str], int]:
    """A directly-follows graph with labels in place of codes, in its order."""
    labels = vocabulary.labels
    return {
        (labels[source], labels[target]): int(count)
        for source, target, count in zip(graph.sources, graph.targets, graph.counts, strict=True)
    }


@dataclass(frozen=True)
class Automaton:
    """A deterministic acyclic automaton.

    Attributes:
        steps: (state, activity) to the next state; state 0 is the initial one.
        final: States in which a variant may end.
        passes: Cases that take each step.
    """

    steps: dict[tuple[int, str], int]
    final: set[int]
    passes: dict[tuple[int, str], int]

    @property
    def states(self) -> set[int]:
        """All states."""
        return {0, *self.steps.values()}

    def continuations(self) -> dict[int, frozenset[Variant]]:
        """What may follow each state: its right language."""
        found: dict[int, frozenset[Variant]] = {}

        def visit(state: int) -> frozenset[Variant]:
            if state not in found:
                own = {()} if state in self.final else set()
                for (source, activity), target in self.steps.items():
                    if source == state:
                        own |= {(activity, *rest) for rest in visit(target)}
                found[state] = frozenset(own)
            return found[state]

        for state in self.states:
            visit(state)
        return found


def naive_automaton(variants: Mapping[Variant, int]) -> Automaton:
    """The minimal automaton by a tree of dicts whose equal subtrees are found by their signatures.

    States are numbered by their first visit in lexicographic order.
    """
    root: dict[str, Any] = {"end": False, "children": {}}
    for variant in variants:
        node = root
        for activity in variant:
            node = node["children"].setdefault(activity, {"end": False, "children": {}})
        node["end"] = True

    classes: dict[Any, int] = {}
    outgoing: dict[int, dict[str, int]] = {}

    def merge(node: dict[str, Any]) -> int:
        children = {
            activity: merge(node["children"][activity]) for activity in sorted(node["children"])
        }
        signature = (node["end"], tuple(children.items()))
        found = classes.setdefault(signature, len(classes))
        outgoing[found] = children
        return found

    top = merge(root)
    ends = {found for (end, _), found in classes.items() if end}
    number: dict[int, int] = {}

    def visit(found: int) -> None:
        if found not in number:
            number[found] = len(number)
            for child in outgoing[found].values():
                visit(child)

    visit(top)
    steps = {
        (number[found], activity): number[child]
        for found, children in outgoing.items()
        for activity, child in children.items()
    }
    passes: Counter[tuple[int, str]] = Counter()
    for variant, count in variants.items():
        state = 0
        for activity in variant:
            passes[state, activity] += count
            state = steps[state, activity]
    return Automaton(steps, {number[found] for found in ends}, dict(passes))


# --- comparing values -----------------------------------------------------------------------------


def plain(value: Any) -> Any:
    """A columnar value as nested dicts and lists, with types, to compare and to keep."""
    if isinstance(value, np.ndarray):
        return "numpy", value.dtype.str, value.shape, value.tolist()
    if isinstance(value, pa.Array):
        return "arrow", str(value.type), value.to_pylist()
    if is_dataclass(value) and not isinstance(value, type):
        parts = {field.name: plain(getattr(value, field.name)) for field in fields(value)}
        return type(value).__name__, parts
    if isinstance(value, dict):
        return {name: plain(part) for name, part in value.items()}
    return type(value).__name__, value
