"""The Amun paper's running example cell by cell, its closed forms, and naive priors."""

from __future__ import annotations

import math
from collections.abc import Collection
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.keys import release_key
from tests.support.paper_log import DAY_US, MINUTE_US, TABLE_1, table_1
from tests.support.rounds import Rounds, run_rounds
from tracecloak.anonymizers.amun.method import Amun, AmunParams, ticks_of
from tracecloak.anonymizers.amun.params import (
    PriorKnowledge,
    advantage_of_oversampling,
    epsilon_of_counts,
    epsilon_of_oversampling,
    epsilon_of_prior,
    prior_of,
)
from tracecloak.schemas.events.traces import TraceBatch
from tracecloak.schemas.statistics.durations import DurationTable
from tracecloak.schemas.statistics.variants import Dafsa

G = 0.3
REFERENCE = AmunParams(guessing_advantage=G, mode="filtering", profile="reference")
WORST = (1 - G) / 2  # Equation 2, for groups of equal times: the paper's .35

# Per case, one value an event, in the order of Table 1.
Cells = dict[str, list[float]]

# Column PK of Table 2, which prints .33 / .5 / .17 for the starts.
TABLE_2_PK: Cells = {
    "1": [1 / 3, 3 / 4, 1 / 3],
    "2": [1 / 3, WORST, WORST, 1 / 3],
    "3": [1 / 2, 1 / 2, 1 / 6],
    "4": [1 / 2, WORST, 1 / 4, 1 / 3],
    "5": [1 / 2, WORST, 1 / 6],
    "6": [1 / 6, 1 / 2, 1 / 6],
}
# Columns New PK and epsilon_t of Table 3, which prints 1.39, 1.24 and 1.79 or 1.8.
TABLE_3_PK: Cells = {
    "2": [1 / 5, WORST, WORST, 1 / 5],
    "3": [3 / 5, 1 / 3, 1 / 5],
    "4": [3 / 5, WORST, 1 / 3, 1 / 5],
    "5": [3 / 5, WORST, 1 / 5],
    "6": [1 / 5, 1 / 3, 1 / 5],
}
EPSILON_OF_PRIOR = {
    1 / 5: 1.3862943611,
    WORST: 1.2380784168,
    1 / 3: 1.2396908869,
    3 / 5: 1.7917594692,
    1 / 2: 1.3862943611,
}

# Table 4, column Count: the states are named as in Figure 2.
TRANSITIONS = {
    ("s0", "A", "s5"): 3,
    ("s5", "B", "s2"): 3,
    ("s2", "C", "s3"): 5,
    ("s0", "D", "s4"): 2,
    ("s4", "A", "s5"): 2,
    ("s5", "E", "s2"): 2,
}


def run(params: AmunParams) -> tuple[TraceBatch, Rounds]:
    [traces] = table_1()
    return traces, run_rounds([traces], Amun(), params, release_key())


def cells_of(traces: TraceBatch, values: np.ndarray) -> Cells:
    rows = zip(traces.case_ids.to_pylist(), traces.offsets[:-1], traces.offsets[1:], strict=True)
    return {case: values[first:last].tolist() for case, first, last in rows}


def column(
    traces: TraceBatch, rounds: Rounds, table: DurationTable, params: AmunParams, what: str
) -> Cells:
    """PK or epsilon of each event, by the priors that the table gives."""
    dafsa: Dafsa = rounds.decisions["dafsa"].dafsa
    prior = prior_of(table, dafsa, params)
    if what == "PK":
        values = np.where(prior.is_constant, WORST, prior.inside / prior.total)
    else:
        values = prior.epsilons(params.guessing_advantage, np.nan, np.nan)
    _, group, ticks = ticks_of(traces, rounds.decisions, params)
    return cells_of(traces, values[table.index(dafsa.n_transitions + 1).find(group, ticks)])


def kept(traces: TraceBatch, cases: Collection[str]) -> TraceBatch:
    wanted = [i for i, case in enumerate(traces.case_ids.to_pylist()) if case in cases]
    return traces.take(np.array(wanted))


def assert_cells(found: Cells, expected: Cells, tolerance: float) -> None:
    assert found.keys() == expected.keys()
    for case, values in expected.items():
        assert found[case] == pytest.approx(values, abs=tolerance), f"case {case}"


def table_4(traces: TraceBatch, dafsa: Dafsa, counts: np.ndarray) -> dict[tuple[str, ...], int]:
    """The contingency table with the automaton's states named as in Figure 2."""
    names = traces.vocabulary.names.to_pylist()
    steps = {
        (int(s), names[a]): int(t)
        for s, a, t in zip(dafsa.sources, dafsa.activities, dafsa.targets, strict=True)
    }
    state = {0: "s0", steps[0, "A"]: "s5", steps[0, "D"]: "s4"}
    state[steps[steps[0, "A"], "B"]] = "s2"
    state[steps[steps[steps[0, "A"], "B"], "C"]] = "s3"
    assert len(state) == dafsa.n_states == 5
    return {
        (state[int(s)], names[a], state[int(t)]): int(n)
        for s, a, t, n in zip(dafsa.sources, dafsa.activities, dafsa.targets, counts, strict=True)
    }


def test_relative_times_are_minutes_since_the_predecessor_and_days_since_the_first_start() -> None:
    """D4 of the worked examples; the paper prints .99 for the starts at day 1."""
    traces, rounds = run(REFERENCE)
    _, _, ticks = ticks_of(traces, rounds.decisions, REFERENCE)
    assert cells_of(traces, ticks) == {
        "1": [0, 30, 325],
        "2": [0, 120, 30, 324],
        "3": [1, 25, 420],
        "4": [1, 120, 40, 325],
        "5": [1, 30, 1800],
        "6": [3, 27, 378],
    }


def test_the_prior_knowledge_of_table_2_cell_by_cell() -> None:
    traces, rounds = run(REFERENCE)
    table = rounds.statistics["prior-knowledge"]["times"]
    found = column(traces, rounds, table, REFERENCE, "PK")
    assert_cells(found, TABLE_2_PK, 1e-12)
    assert {case: len(row) for case, row in found.items()} == {
        case: sum(row[0] == case for row in TABLE_1) for case in found
    }


def test_the_new_priors_and_epsilons_of_table_3_cell_by_cell() -> None:
    traces, rounds = run(REFERENCE)
    left = kept(traces, TABLE_3_PK)
    table = rounds.statistics["sampling"]["times"]
    assert_cells(column(left, rounds, table, REFERENCE, "PK"), TABLE_3_PK, 1e-12)
    epsilons = column(left, rounds, table, REFERENCE, "epsilon")
    exact = {case: [EPSILON_OF_PRIOR[p] for p in row] for case, row in TABLE_3_PK.items()}
    assert_cells(epsilons, exact, 5e-11)


def scales_by_cell(params: AmunParams, cases: Collection[str]) -> Cells:
    traces, rounds = run(params)
    left = kept(traces, cases)
    sampling = rounds.decisions["sampling"]
    _, group, ticks = ticks_of(left, rounds.decisions, params)
    return cells_of(left, sampling.scales[sampling.times.find(group, ticks)])


def test_the_scale_of_the_noise_is_the_range_of_the_group_over_epsilon() -> None:
    """Ranges after the filter: starts 3 days, B 25 to 40 minutes, C 324 to 1800, the others 0."""
    e = EPSILON_OF_PRIOR
    start = {p: 3 * DAY_US / e[p] for p in (1 / 5, 3 / 5)}
    b, c = 15 * MINUTE_US / e[1 / 3], 1476 * MINUTE_US / e[1 / 5]
    expected = {
        "2": [start[1 / 5], 0, 0, c],
        "3": [start[3 / 5], b, c],
        "4": [start[3 / 5], 0, b, c],
        "5": [start[3 / 5], 0, c],
        "6": [start[1 / 5], b, c],
    }
    found = scales_by_cell(REFERENCE, TABLE_3_PK)
    for case, row in expected.items():
        assert found[case] == pytest.approx(row, rel=1e-6), f"case {case}"


def test_the_contingency_table_of_table_4() -> None:
    traces, rounds = run(REFERENCE)
    dafsa = rounds.decisions["dafsa"].dafsa
    counts = dafsa.counts_of(rounds.statistics["sampling"]["variants"])
    assert table_4(traces, dafsa, dafsa.contingency_table(counts)) == TRANSITIONS


advantages = st.floats(0.001, 0.999)


def equation_3(prior: float, g: float) -> float:
    return float(epsilon_of_prior(np.array([prior]), g)[0])


@pytest.mark.parametrize(("g", "epsilon"), [(0.2, 0.810930), (0.3, 1.238078), (0.4, 1.694596)])
def test_epsilon_of_counts_is_that_of_table_4(g: float, epsilon: float) -> None:
    """The paper prints .81, 1.238 and 1.7."""
    assert epsilon_of_counts(g) == pytest.approx(epsilon, abs=5e-7)


@given(advantages, st.floats(0.001, 0.999))
def test_equation_3_inverts_the_posterior_of_proposition_a_1(g: float, share: float) -> None:
    prior = share * (1 - g)
    posterior = 1 / (1 + math.exp(-equation_3(prior, g)) * (1 - prior) / prior)
    assert posterior - prior == pytest.approx(g, rel=1e-9, abs=1e-12)


@given(advantages)
def test_epsilon_of_oversampling_is_the_closed_form_below_equation_9(g: float) -> None:
    """With the root of the paper's `b` over the whole polynomial, which the print has lost."""
    root = math.sqrt(2 * g**3 + 21 * g**2 - 48 * g + 25)
    b = (math.sqrt(3) * root - 9 * g + 9) ** (1 / 3)
    c = 6 ** (1 / 3)
    closed = -2 * math.log(b / c**2 - (g - 1) / (c * b))
    assert epsilon_of_oversampling(g) == pytest.approx(closed, rel=1e-6, abs=1e-9)
    assert advantage_of_oversampling(epsilon_of_oversampling(g)) == pytest.approx(g, rel=1e-9)


Rule = tuple[np.ndarray, np.ndarray, np.ndarray]


@st.composite
def groups_and_rules(draw: st.DrawFn) -> tuple[list[list[int]], Rule]:
    """Values by group, some empty, and a rule for each group."""
    value = st.integers(-20, 20)
    groups = draw(st.lists(st.lists(value, max_size=12), min_size=1, max_size=5))
    n = len(groups)
    reach = st.lists(st.integers(0, 15), min_size=n, max_size=n)
    flags = st.lists(st.booleans(), min_size=n, max_size=n)
    return groups, (np.array(draw(reach)), np.array(draw(reach)), np.array(draw(flags), bool))


def table_of(groups: list[list[int]]) -> DurationTable:
    pairs = [(group, value) for group, values in enumerate(groups) for value in values]
    columns = np.array(pairs, np.int64).reshape(-1, 2)
    return DurationTable.from_events(columns[:, 0], columns[:, 1])


def naive_prior(values: list[int], x: int, below: int, above: int, is_clamped: bool) -> int:
    lower = x - below
    if is_clamped:
        lower = max(lower, min(values))
    return sum(lower < value <= x + above for value in values)


@given(groups_and_rules())
def test_priors_count_the_values_within_precision(given: tuple[list[list[int]], Rule]) -> None:
    groups, rule = given
    table = table_of(groups)
    prior = PriorKnowledge.of(table, *rule)
    assert len(prior.inside) == len(table.values)
    for i, (group, x) in enumerate(zip(table.groups, table.values, strict=True)):
        values = groups[group]
        expected = naive_prior(values, x, *(of_groups[group] for of_groups in rule))
        assert prior.inside[i] == expected
        assert prior.total[i] == len(values)
        assert prior.widths[i] == max(values) - min(values)
        assert prior.is_constant[i] == (len(set(values)) == 1)


def knowledge(inside: list[int], total: list[int], constant: list[bool]) -> PriorKnowledge:
    widths = np.where(constant, 0, 7)
    return PriorKnowledge(np.array(inside), np.array(total), np.array(constant), widths)


@given(st.integers(1, 999_999), st.integers(1, 10**6), st.data())
def test_the_comparison_is_that_of_fractions(
    millionths: int, total: int, data: st.DataObject
) -> None:
    inside = data.draw(st.integers(0, total))
    expected = Fraction(inside, total) + Fraction(millionths, 10**6) >= 1
    found = knowledge([inside], [total], [False]).exceeds(millionths / 10**6)
    assert found.tolist() == [expected]
