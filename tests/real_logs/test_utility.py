"""How near releases are to public research logs at epsilon 1 and delta 1e-6, per case.

Medians of releases under fixed keys, against bounds a few per cent above what was measured;
constants of the mechanisms were chosen on the same logs. Vocabulary, length and dates are the logs'
own, as if they were public. TRACECLOAK_LOGS names the folder that has the logs.
"""

from __future__ import annotations

import datetime
import functools
import itertools
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rapidfuzz.distance import Levenshtein
from rapidfuzz.process import cdist
from scipy.optimize import linear_sum_assignment

from tests.support.keys import release_key
from tests.support.real_logs import public_log, real_log
from tests.support.tiers import at_night
from tracecloak.anonymizers.contract.in_memory import MethodRun, anonymise, execute
from tracecloak.anonymizers.queries.pripel import Pripel
from tracecloak.anonymizers.queries.pripel_enrichment import QueryDecision
from tracecloak.anonymizers.registry import METHODS
from tracecloak.examination.measure import utility
from tracecloak.examination.measure.measures import variant_emd
from tracecloak.schemas.events.events import ActivityVocabulary
from tracecloak.schemas.events.traces import TraceBatch
from tracecloak.schemas.published.graph import ReleasedGraph
from tracecloak.schemas.statistics.variants import DirectlyFollows, VariantHistogram

pytestmark = pytest.mark.logs

COSELOG, SEPSIS, URINE = "coselog_receipt.xes.gz", "sepsis.xes.gz", "unrineweginfectie.xes.gz"
LENGTHS = {COSELOG: 25, SEPSIS: 40, URINE: 25}
N_KEYS = 10
N_GRAPHS = 200  # one graph in four is beyond its bound: the median of 20 would be one time in fifty
OFFICE = {
    "working_days": "mon,tue,wed,thu,fri",
    "working_hours": "8-18",
    "calendar_time_zone": "Europe/Amsterdam",
}
NOTHING = {"TV": 1.0, "EMD": 1.0, "DFG": 1.0, "size": 1.0, "days": math.inf, "hours": 1.0}


def distances(a: TraceBatch, b: TraceBatch) -> dict[str, float]:
    """Total variation of variants and of pairs, earth mover's distance, and those of times."""
    if not b.n_cases:
        return NOTHING
    vocabulary = ActivityVocabulary.merge([a.vocabulary, b.vocabulary])
    a, b = a.recode(vocabulary), b.recode(vocabulary)
    sides = [VariantHistogram.from_traces(side) for side in (a, b)]
    pairs = [edges_of(side) for side in (a, b)]
    union = sorted(pairs[0].keys() | pairs[1].keys())
    weights = [np.array([side.get(pair, 0) for pair in union], float) for side in pairs]
    days = utility.case_duration_distance_days(a, b)
    assert days is not None
    return {
        "TV": utility.variant_distance(*sides),
        "EMD": variant_emd(*sides),
        "DFG": utility.total_variation(*weights),
        "size": abs(b.n_cases / a.n_cases - 1),
        "days": days,
        "hours": utility.hour_of_week_distance(a, b),
    }


def edges_of(traces: TraceBatch) -> dict[tuple[str, str], int]:
    """The log's own graph, START and END included."""
    graph, labels = DirectlyFollows.from_traces(traces), traces.vocabulary.labels
    return {
        (labels[source], labels[target]): int(count)
        for source, target, count in zip(graph.sources, graph.targets, graph.counts, strict=True)
    }


def day_of(time_us: int) -> str:
    return str(datetime.datetime.fromtimestamp(time_us / 1e6, datetime.UTC).date())


@functools.cache
def medians(folder: Path, name: str, method: str, given: str) -> dict[str, float]:
    """Of a method with these parameters, as JSON; it gets what else is public if it takes it."""
    traces, own = public_log(folder, name), METHODS[method]
    public: dict[str, Any] = {
        "delta": "1e-6",
        "vocabulary": tuple(traces.vocabulary.names.to_pylist()),
        "max_trace_length": LENGTHS[name],
        **json.loads(given),
    }
    if public.get("products") == "log":
        public["first_date"] = day_of(int(traces.times.min()))
        public["last_date"] = day_of(int(traces.times.max()))
    if public.get("buy_vocabulary"):
        del public["vocabulary"], public["max_trace_length"]
    params = own.Params(**{n: v for n, v in public.items() if n in own.Params.model_fields})
    rows = []
    for number in range(N_KEYS):
        [made] = anonymise([traces], own, params, release_key(number), "r", "c").traces
        rows.append(distances(traces, made))
    found = {key: float(np.median([row[key] for row in rows])) for key in rows[0]}
    print(name, method, given, {key: round(value, 3) for key, value in found.items()})  # noqa: T201
    return found


def near(folder: Path, name: str, method: str, **given: Any) -> dict[str, float]:
    return medians(folder, name, method, json.dumps(given))


@pytest.mark.parametrize(
    ("name", "method", "given", "most"),
    [
        (COSELOG, "variant-histogram", {}, {"TV": 0.14, "EMD": 0.06}),
        (COSELOG, "variant-histogram", {"noise": "truncated"}, {"TV": 0.14, "EMD": 0.06}),
        at_night(SEPSIS, "markov-log", {}, {"EMD": 0.31, "TV": 0.98, "DFG": 0.135}),
        (COSELOG, "markov-log", {}, {"EMD": 0.074, "TV": 0.21, "DFG": 0.087}),
        (URINE, "markov-log", {}, {"EMD": 0.044, "TV": 0.11, "DFG": 0.042}),
        at_night(SEPSIS, "markov-log-pure", {}, {"EMD": 0.42, "DFG": 0.21}),
        # Nothing is public but what is bought.
        (COSELOG, "markov-log", {"epsilon": "4", "buy_vocabulary": True},
         {"EMD": 0.1, "size": 0.1}),
        (COSELOG, "private-log", {"products": "variants", "variants": "variant-histogram"},
         {"TV": 0.14, "EMD": 0.059}),
        (COSELOG, "private-log", {"products": "variants"}, {"TV": 0.17, "EMD": 0.062}),
        (COSELOG, "private-log", {"products": "log"},
         {"TV": 0.22, "EMD": 0.09, "size": 0.03, "days": 1.6, "hours": 0.32}),
        (COSELOG, "private-log", {"products": "log", **OFFICE}, {"days": 1.5, "hours": 0.18}),
        # Next to no noise: all of the error is that of the bins and of how times are drawn.
        at_night(COSELOG, "private-log", {"products": "log", "epsilon": "1000"},
                 {"days": 0.75, "hours": 0.23}),
        at_night(COSELOG, "private-log", {"products": "log", "epsilon": "1000", **OFFICE},
                 {"days": 0.75, "hours": 0.12}),
        at_night(SEPSIS, "private-log", {"products": "log", "epsilon": "1000"},
                 {"days": 3.2, "hours": 0.29}),
        at_night(SEPSIS, "private-log", {"products": "log", "epsilon": "4"},
                 {"days": 3.2, "hours": 0.3}),
        (COSELOG, "private-log", {"products": "variants", "delta": "0"},
         {"TV": 1.5 * 0.14, "EMD": 1.5 * 0.057}),
        at_night(SEPSIS, "private-log", {"products": "variants"}, {"EMD": 0.348, "DFG": 0.173}),
        # Of 40 keys the median is 0.37, and those of 10 are up to 0.015 beside it.
        at_night(SEPSIS, "private-log", {"products": "log"},
                 {"EMD": 0.40, "size": 0.05, "days": 8, "hours": 0.3}),
        at_night(SEPSIS, "private-log", {"products": "variants", "delta": "0"},
                 {"EMD": 1.5 * 0.348}),
    ],
)  # fmt: skip
def test_logs_are_near_the_original(
    logs_folder: Path, name: str, method: str, given: dict[str, Any], most: dict[str, float]
) -> None:
    """Control: a fiftieth of the epsilon does not keep the first distance."""
    given = {"epsilon": "1", **given}
    found = near(logs_folder, name, method, **given)
    assert {key: found[key] for key in most if found[key] > most[key]} == {}
    weak = near(logs_folder, name, method, **{**given, "epsilon": "0.02"})
    first = next(iter(most))
    assert weak[first] > most[first]


@pytest.mark.parametrize(
    ("name", "epsilon"),
    [
        (name, epsilon) if (name, epsilon) == (URINE, "1") else at_night(name, epsilon)
        for name in LENGTHS
        for epsilon in ("0.1", "0.5", "1", "2", "4")
    ],
)
def test_auto_is_nearly_as_near_as_the_best_way(logs_folder: Path, name: str, epsilon: str) -> None:
    """Within a tenth, and one in the last digit that is printed, of the smallest distance.

    At epsilon 0.1 within a half: some thousand cases are few for a choice.
    """
    found, *ways = (
        near(logs_folder, name, method, epsilon=epsilon)["EMD"]
        for method in ("auto-variants", "variant-histogram", "markov-log", "privtree")
    )
    assert found <= (1.5 if epsilon == "0.1" else 1.1) * min(ways) + 0.001


@pytest.mark.parametrize(
    ("given", "bound"),
    [at_night({"l2_clip": "6"}, 0.25), ({}, 0.28)],
    ids=["clip 6", "bought clip"],
)
def test_the_graph_of_sepsis_is_near_the_logs(
    logs_folder: Path, given: dict[str, Any], bound: float
) -> None:
    """Relative L1 error at most 0.25, and 0.28 where the clip is bought; nine in ten edges exist.

    Where a clip far too high is bought, the graph may be empty; that counts as all wrong.
    """
    traces, method = real_log(logs_folder, SEPSIS), METHODS["private-dfg"]
    true, names = edges_of(traces), tuple(traces.vocabulary.names.to_pylist())
    params = method.Params(epsilon="1", delta="1e-6", vocabulary=names, **given)
    rows = []
    for number in range(N_GRAPHS):
        made = anonymise([traces], method, params, release_key(number), "release", "configuration")
        graph = made.products.by_name["dfg"]
        assert isinstance(graph, ReleasedGraph)
        table = graph.to_table().to_pylist()
        found = {(row["source"], row["target"]): row["count"] for row in table}
        errors = (abs(true.get(e, 0) - found.get(e, 0)) for e in true.keys() | found.keys())
        share = len(found.keys() & true.keys()) / max(len(found), 1)
        rows.append((sum(errors), share, sum(found.values())))
    error, precision, mass = np.median(rows, axis=0) / (
        sum(true.values()), 1, sum(true.values()),
    )  # fmt: skip
    assert error <= bound and precision >= 0.9 and 0.7 < mass < 1.1


# --- PRIPEL ---------------------------------------------------------------------------------------


PRIPEL = Pripel()
BPIC = "bpic2012.xes.gz"
# The levels that 80 % of the variants end on.
LEVELS = {SEPSIS: 23, COSELOG: 10, BPIC: 53}
PRUNING = {SEPSIS: 3, COSELOG: 3, BPIC: 5}


def params(name: str, **others: Any) -> Any:
    given = {"epsilon": "1", "max_prefix_length": LEVELS[name], "p_harmful": PRUNING[name]}
    return PRIPEL.Params(**{**given, **others})


@functools.cache
def released(folder: Path, name: str, number: int = 0, **others: Any) -> TraceBatch:
    [made] = anonymise(
        [real_log(folder, name)], PRIPEL, params(name, **others), release_key(number), "r", "c"
    ).traces
    return made


def steps(traces: TraceBatch) -> set[tuple[int, int, int]]:
    """Pairs of activities with the time between them, of steps that take some."""
    later = np.flatnonzero(traces.durations > 0)
    before, after = traces.activities[later - 1], traces.activities[later]
    return set(zip(before.tolist(), after.tolist(), traces.durations[later].tolist(), strict=True))


@pytest.mark.parametrize("query", ["laplace", "sacofa"])
@pytest.mark.parametrize("name", [at_night(n) if "bpic" in n else n for n in LEVELS])
def test_next_to_no_time_of_the_log_comes_out(logs_folder: Path, name: str, query: str) -> None:
    """The authors' code releases 99 % of the times between events as they are.

    At most one in a thousand here is met by chance: where a pair takes milliseconds in the log,
    there are few other times in microseconds for it.
    """
    raw, made = real_log(logs_folder, name), released(logs_folder, name, query=query)
    assert made.n_cases > raw.n_cases / 10
    assert (made.durations >= 0).all()
    known = steps(raw)
    times = steps(made)
    assert len(times & known) <= len(times) / 1000
    assert len(known & steps(raw.take(np.arange(100)))) > 100  # the control
    assert len(set(raw.times.tolist()) & set(made.times.tolist())) <= made.n_events / 1000
    assert raw.starts.min() <= made.starts.min() and made.starts.max() <= raw.starts.max()


@pytest.mark.parametrize(("name", "levels"), [(SEPSIS, 23), (SEPSIS, 5), (COSELOG, 10)])
def test_the_matching_costs_as_little_as_that_of_a_matrix_of_cases(
    logs_folder: Path, name: str, levels: int
) -> None:
    raw = real_log(logs_folder, name)
    given = params(name, max_prefix_length=levels)
    decisions = execute(MethodRun(PRIPEL, given, release_key(), "r", "c"), [raw])[2].decisions
    query: QueryDecision = decisions["variants"]
    ours = texts(query.offsets, query.codes)
    theirs = texts(query.matched.offsets, query.matched.codes)
    n_released = np.zeros(len(ours), np.int64)
    np.add.at(n_released, query.released, query.cases)
    found = sum(
        int(n) * Levenshtein.distance(ours[i], theirs[j])
        for j, i, n in zip(query.raw, query.released, query.cases, strict=True)
    )
    whole = VariantHistogram.from_traces(raw)
    uses = -(-int(n_released.sum()) // raw.n_cases)
    distances = cdist(ours, texts(whole.offsets, whole.codes), scorer=Levenshtein.distance)
    matrix = np.repeat(np.repeat(distances, n_released, axis=0), whole.counts * uses, axis=1)
    assert found == matrix[linear_sum_assignment(matrix)].sum()


def texts(offsets: np.ndarray, codes: np.ndarray) -> list[str]:
    text = "".join(map(chr, (codes + 65).tolist()))
    return [text[a:b] for a, b in itertools.pairwise(offsets.tolist())]
