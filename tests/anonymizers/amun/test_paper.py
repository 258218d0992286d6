"""Amun on Table 1 of its paper: Tables 2, 3 and 4 cell by cell, in both readings of Equation 1.

Elkoumy, Pankova, Dumas: Differentially Private Release of Event Logs for Process Mining; g = .3.
The printed PK column follows the profile `reference`; Equation 1 as written gives other values,
which are here too. Fractions are exact where the paper prints two digits.
"""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
import pytest

from tests.support.keys import release_key
from tests.support.paper_log import DAY_US, MINUTE_US, TABLE_1, table_1, traces_of
from tests.support.rounds import Rounds, run_rounds
from tracecloak.anonymizers.amun.method import Amun, AmunParams, _prior
from tracecloak.anonymizers.amun.params import equation_4, ticks_of
from tracecloak.schemas.events.traces import TraceBatch
from tracecloak.schemas.statistics.dafsa import Dafsa
from tracecloak.schemas.statistics.durations import DurationTable

G = 0.3
REFERENCE = AmunParams(guessing_advantage=G, mode="filtering", profile="reference")
EQUATION_1 = AmunParams(
    guessing_advantage=G, mode="filtering", profile="paper", time_precision_us=600_000_000
)
WORST = (1 - G) / 2  # Equation 2, for groups of equal times: the paper's .35

# Per case, one value an event, in the order of Table 1.
Cells = dict[str, list[float]]

# Column PK of Table 2. The starts print .33 / .5 / .17.
TABLE_2_PK: Cells = {
    "1": [1 / 3, 3 / 4, 1 / 3],
    "2": [1 / 3, WORST, WORST, 1 / 3],
    "3": [1 / 2, 1 / 2, 1 / 6],
    "4": [1 / 2, WORST, 1 / 4, 1 / 3],
    "5": [1 / 2, WORST, 1 / 6],
    "6": [1 / 6, 1 / 2, 1 / 6],
}
TABLE_2_PRINTED: Cells = {
    "1": [0.33, 0.75, 0.33],
    "2": [0.33, 0.35, 0.35, 0.33],
    "3": [0.5, 0.5, 0.167],
    "4": [0.5, 0.35, 0.25, 0.33],
    "5": [0.5, 0.35, 0.17],
    "6": [0.17, 0.5, 0.17],
}
# Columns New PK and epsilon_t of Table 3.
TABLE_3_PK: Cells = {
    "2": [1 / 5, WORST, WORST, 1 / 5],
    "3": [3 / 5, 1 / 3, 1 / 5],
    "4": [3 / 5, WORST, 1 / 3, 1 / 5],
    "5": [3 / 5, WORST, 1 / 5],
    "6": [1 / 5, 1 / 3, 1 / 5],
}
TABLE_3_EPSILON_PRINTED: Cells = {
    "2": [1.39, 1.24, 1.24, 1.39],
    "3": [1.8, 1.24, 1.39],
    "4": [1.79, 1.24, 1.24, 1.39],
    "5": [1.79, 1.24, 1.39],
    "6": [1.39, 1.24, 1.39],
}
EPSILON_OF_PRIOR = {
    1 / 5: 1.3862943611,
    WORST: 1.2380784168,
    1 / 3: 1.2396908869,
    3 / 5: 1.7917594692,
    1 / 2: 1.3862943611,
}
# Equation 1 as written, on all cases.
EQUATION_1_PK: Cells = {
    "1": [5 / 6, 1.0, 1 / 2],
    "2": [5 / 6, WORST, WORST, 1 / 2],
    "3": [1 / 2, 3 / 4, 1 / 6],
    "4": [1 / 2, WORST, 1 / 4, 1 / 2],
    "5": [1 / 2, WORST, 1 / 6],
    "6": [1 / 6, 3 / 4, 1 / 6],
}
EQUATION_1_PK_FILTERED: Cells = {"4": [WORST, WORST, WORST, 0.5], "5": [WORST, WORST, 0.5]}

# Table 4, column Count: the states are named as in Figure 2.
TRANSITIONS = {
    ("s0", "A", "s5"): 3,
    ("s5", "B", "s2"): 3,
    ("s2", "C", "s3"): 5,
    ("s0", "D", "s4"): 2,
    ("s4", "A", "s5"): 2,
    ("s5", "E", "s2"): 2,
}
UNFILTERED_COUNTS = [4, 4, 6, 2, 2, 2]


def run(params: AmunParams, without: Collection[str] = ()) -> tuple[TraceBatch, Rounds]:
    [traces] = table_1(without)
    return traces, run_rounds([traces], Amun(), params, release_key())


def cells_of(traces: TraceBatch, values: np.ndarray) -> Cells:
    rows = zip(traces.case_ids.to_pylist(), traces.offsets[:-1], traces.offsets[1:], strict=True)
    return {case: values[first:last].tolist() for case, first, last in rows}


def column(
    traces: TraceBatch, rounds: Rounds, table: DurationTable, params: AmunParams, what: str
) -> Cells:
    """PK or epsilon of each event, by the priors that the table gives."""
    dafsa: Dafsa = rounds.decisions["dafsa"].dafsa
    prior = _prior(table, dafsa, params)
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


def dropped_cases(params: AmunParams, without: Collection[str] = ()) -> set[str]:
    """The cases that have a time which the filter finds too easy to guess."""
    traces, rounds = run(params, without)
    decided = rounds.decisions["prior-knowledge"]
    _, group, ticks = ticks_of(traces, rounds.decisions, params)
    is_dropped = decided.is_dropped[decided.times.find(group, ticks)]
    drops = np.logical_or.reduceat(is_dropped, traces.offsets[:-1])
    n_kept = rounds.statistics["sampling"]["variants"].n_cases
    assert n_kept == traces.n_cases - drops.sum()
    return {case for case, drop in zip(traces.case_ids.to_pylist(), drops, strict=True) if drop}


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


# --- relative times: column Rel. Time of Table 2 --------------------------------------------------


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


def test_the_profile_paper_compares_relative_times_in_microseconds() -> None:
    traces, rounds = run(EQUATION_1)
    _, _, ticks = ticks_of(traces, rounds.decisions, EQUATION_1)
    assert cells_of(traces, ticks)["4"] == [1, 120 * MINUTE_US, 40 * MINUTE_US, 325 * MINUTE_US]


# --- Table 2 --------------------------------------------------------------------------------------


def test_the_prior_knowledge_of_table_2_cell_by_cell() -> None:
    traces, rounds = run(REFERENCE)
    table = rounds.statistics["prior-knowledge"]["times"]
    found = column(traces, rounds, table, REFERENCE, "PK")
    assert_cells(found, TABLE_2_PK, 1e-12)
    assert_cells(found, TABLE_2_PRINTED, 0.0051)
    assert {case: len(row) for case, row in found.items()} == {
        case: sum(row[0] == case for row in TABLE_1) for case in found
    }


def test_equation_1_as_written_gives_other_priors() -> None:
    traces, rounds = run(EQUATION_1)
    table = rounds.statistics["prior-knowledge"]["times"]
    found = column(traces, rounds, table, EQUATION_1, "PK")
    assert_cells(found, EQUATION_1_PK, 1e-12)


# --- the filter -----------------------------------------------------------------------------------


def test_the_reference_reading_filters_case_1() -> None:
    assert dropped_cases(REFERENCE) == {"1"}


def test_without_case_4_nothing_is_filtered() -> None:
    """So one case decides on another: the filter depends on the data."""
    assert dropped_cases(REFERENCE, without={"4"}) == set()


def test_equation_1_as_written_leaves_cases_4_and_5() -> None:
    assert dropped_cases(EQUATION_1) == {"1", "2", "3", "6"}


# --- Table 3 --------------------------------------------------------------------------------------


def test_the_new_priors_and_epsilons_of_table_3_cell_by_cell() -> None:
    traces, rounds = run(REFERENCE)
    left = kept(traces, TABLE_3_PK)
    table = rounds.statistics["sampling"]["times"]
    assert_cells(column(left, rounds, table, REFERENCE, "PK"), TABLE_3_PK, 1e-12)
    epsilons = column(left, rounds, table, REFERENCE, "epsilon")
    exact = {case: [EPSILON_OF_PRIOR[p] for p in row] for case, row in TABLE_3_PK.items()}
    assert_cells(epsilons, exact, 5e-11)
    assert_cells(epsilons, TABLE_3_EPSILON_PRINTED, 0.009)


def test_equation_1_as_written_leaves_two_priors_of_a_half() -> None:
    traces, rounds = run(EQUATION_1)
    left = kept(traces, EQUATION_1_PK_FILTERED)
    table = rounds.statistics["sampling"]["times"]
    found = column(left, rounds, table, EQUATION_1, "PK")
    assert_cells(found, EQUATION_1_PK_FILTERED, 1e-12)
    epsilons = column(left, rounds, table, EQUATION_1, "epsilon")
    exact = {
        case: [EPSILON_OF_PRIOR[p] for p in row] for case, row in EQUATION_1_PK_FILTERED.items()
    }
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


def test_correlated_times_divide_epsilon_by_the_longest_kept_trace() -> None:
    """Proposition A.7 with m = 4: .3466 / .3095 / .3099 / .4479 in place of Table 3's epsilons."""
    divided = REFERENCE.model_copy(update={"correlated_times": True})
    plain, scaled = scales_by_cell(REFERENCE, TABLE_3_PK), scales_by_cell(divided, TABLE_3_PK)
    for case, row in plain.items():
        assert scaled[case] == pytest.approx([4 * scale for scale in row])
    assert 3 * DAY_US / scaled["2"][0] == pytest.approx(0.3466, abs=5e-5)
    assert 3 * DAY_US / scaled["3"][0] == pytest.approx(0.4479, abs=5e-5)
    assert 15 * MINUTE_US / scaled["3"][1] == pytest.approx(0.3099, abs=5e-5)


def test_the_longest_trace_of_proposition_a_7_is_the_longest_that_the_filter_leaves() -> None:
    """Eight of eleven durations of B are equal, so those cases go: the one long case with them."""
    far = {"9": 5, "10": 7_000, "11": 9_000}
    rows = []
    for i in range(1, 12):
        start = 20 * i * DAY_US
        rows += [(str(i), "A", start), (str(i), "B", start + far.get(str(i), 60) * MINUTE_US)]
        if i == 1:
            rows += [(str(i), name, start + DAY_US) for name in "CDE"]
    scales = {}
    for correlated in (False, True):
        params = REFERENCE.model_copy(update={"correlated_times": correlated})
        rounds = run_rounds(traces_of(rows), Amun(), params, release_key())
        assert rounds.statistics["sampling"]["variants"].n_cases == 3
        scales[correlated] = rounds.decisions["sampling"].scales
    assert scales[True].max() > 0
    np.testing.assert_allclose(scales[True], 2 * scales[False], rtol=1e-6)


# --- Table 4 --------------------------------------------------------------------------------------


def test_the_contingency_table_of_table_4() -> None:
    traces, rounds = run(REFERENCE)
    dafsa = rounds.decisions["dafsa"].dafsa
    counts = dafsa.counts_of(rounds.statistics["sampling"]["variants"])
    assert table_4(traces, dafsa, dafsa.contingency_table_of(counts)) == TRANSITIONS


def test_the_contingency_table_before_the_filter() -> None:
    traces, rounds = run(REFERENCE)
    dafsa = rounds.decisions["dafsa"].dafsa
    found = table_4(traces, dafsa, dafsa.contingency_table)
    assert found == dict(zip(TRANSITIONS, UNFILTERED_COUNTS, strict=True))


# --- profiles -------------------------------------------------------------------------------------


def test_the_authors_code_is_the_profile_unless_another_is_named() -> None:
    assert AmunParams().profile == "reference"
    assert AmunParams().choices == AmunParams(profile="reference").choices


def test_the_profile_paper_is_as_section_3_3_says() -> None:
    choices = AmunParams(profile="paper").choices
    assert choices.prior == "equation_1"
    assert choices.time_precision_us == 10_000_000  # "the precision [...] is 10 seconds"
    assert choices.start_precision_days == 1  # "for the start timestamp is one day"
    assert choices.oversampling_epsilon == "proposition_a6"
    assert choices.saturated_epsilon == "epsilon_d"
    assert choices.compression == "shifts"  # as Table 5 was made, see below


def test_the_profile_reference_is_what_the_authors_run() -> None:
    assert vars(AmunParams(profile="reference").choices) == {
        "oversampling_epsilon": "epsilon_d",
        "prior": "clamped",
        "time_precision_us": 10 * MINUTE_US,
        "time_unit_us": MINUTE_US,
        "start_precision_days": "authors",
        "saturated_epsilon": 0.7,
        "compression": "noise",
        "moves": "algorithm_1",
        "negative_steps": "zero",
        "divided_epsilons": "all",
    }
    assert AmunParams().zero_prior_epsilon == 10


def test_the_profile_tables_is_that_of_the_authors_with_what_they_do_against_the_paper() -> None:
    own = vars(AmunParams(profile="tables").choices)
    assert own == {
        **vars(AmunParams(profile="reference").choices),
        "compression": "shifts",
        "moves": "authors",
        "negative_steps": "mirrored",
        "divided_epsilons": "steps",
    }


# Table 5: the released case of each, and the start of the case of Table 1 that it is of. The labels
# of two rows of 08-11 are swapped in print; the start of the last case is the other's.
TABLE_5_STARTS = {
    "66d19": (8, "04:26:24", "2"),
    "66c81": (9, "12:16:42", "4"),
    "64b00": (10, "05:17:48", "4"),
    "c4247": (9, "18:44:10", "5"),
    "efd62": (9, "19:34:35", "3"),
    "cde71": (11, "06:16:25", "6"),
}
# Its steps from D to A and from A to E, whose groups have 120 and 30 minutes alone in Table 1.
TABLE_5_STEPS = [
    (120, "04:26:24", "07:03:57"),
    (120, "12:16:42", "14:54:15"),
    (120, "05:17:48", "07:55:20"),
    (30, "07:03:57", "07:43:20"),
    (30, "18:44:10", "19:23:33"),
]


def test_table_5_was_made_by_equation_4_on_the_noise_and_by_the_largest_shift_of_a_start() -> None:
    """Section 3.7 leaves open which "relative time values" are multiplied by Equation 4.

    Groups without spread get no noise; the authors' code adds the group's value to it. So each step
    of Table 5 is 1 + f times its length if f multiplies the noise, and f times if it multiplies the
    step: 1.3128 in print, and Equation 4 is at most 1/2. f itself needs the range of the starts of
    cases 2 to 6 (the filter dropped case 1), and tells which range is the anonymised one.
    """

    def seconds(stamp: str) -> int:
        hours, minutes, *rest = map(int, stamp.split(":"))
        return hours * 3600 + minutes * 60 + sum(rest)

    factors = [
        (seconds(last) - seconds(first)) / (60 * minutes) - 1
        for minutes, first, last in TABLE_5_STEPS
    ]
    printed = float(np.mean(factors))
    assert factors == pytest.approx([printed] * 5, abs=3e-4) and printed < 1 / 2
    own = {case: seconds(time) + day * 86_400 for case, _, day, time in reversed(TABLE_1)}
    own = {case: start for case, start in own.items() if case != "1"}
    shifts, noised = [], []
    for day, time, case in TABLE_5_STARTS.values():
        shifts.append((day * 86_400 + seconds(time) - own[case]) / printed)
        noised.append(own[case] + shifts[-1])
    original = max(own.values()) - min(own.values())
    assert equation_4(original, int(max(map(abs, shifts)))) == pytest.approx(printed, abs=3e-4)
    of_the_text = equation_4(original, int(max(noised) - min(noised)))
    assert of_the_text == pytest.approx(0.219, abs=1e-3)  # control: the range that the text names


@pytest.mark.parametrize("profile", ["paper", "reference", "tables"])
def test_what_is_given_takes_the_place_of_the_profiles_choice(profile: str) -> None:
    given = {"prior": "clamped", "compression": "none", "start_precision_days": 2.5}
    params = AmunParams(profile=profile, **given)
    rest = AmunParams(profile=profile).choices
    assert vars(params.choices) == {**vars(rest), **given}
    assert {**params.resolved(), **vars(params.choices)} == params.resolved()
