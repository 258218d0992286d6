"""The experiment on Amun beside its paper: printed figures, reasons, epsilon_t and Table 9."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.paper_log import DAY_US, table_1, traces_of
from tracecloak.examination.experiments import amun
from tracecloak.examination.experiments import amun as of_amun
from tracecloak.examination.experiments.amun import TABLE_9, AmunPaper, described, printed_epsilon
from tracecloak.examination.experiments.paper import Log
from tracecloak.examination.experiments.run import paper_named
from tracecloak.examination.experiments.table import NOTHING, Section, Table

SEPSIS = described(1_050, 15_214, 846)


def grid(profile: str = "tables") -> AmunPaper:
    found = paper_named("amun", {"guessing_advantages": "0.2,0.3", "profile": profile})
    assert isinstance(found, AmunPaper)
    return found


def log_of() -> Log:
    [traces] = table_1()
    return Log("table 1", traces)


def table(sections: Iterator[Section]) -> list[tuple[str, ...]]:
    [section] = sections
    [found] = section.parts
    assert isinstance(found, Table)
    return [tuple(row) for row in found.rows]


# --- what the paper prints ------------------------------------------------------------------------


def test_a_log_of_the_paper_is_known_by_its_numbers() -> None:
    assert len(TABLE_9) == len({one.name for one in TABLE_9}) == 14
    assert SEPSIS is not None and SEPSIS.name == "Sepsis" and SEPSIS[6:8] == (3, 185)
    assert described(1_050, 15_214, 845) is None
    for one in TABLE_9:
        assert described(one.n_cases, one.n_events, one.n_variants) is one


# --- beside the experiment's ----------------------------------------------------------------------


def rows_of(values: list[float], arm: str = "Amun, sampling") -> list[dict[str, object]]:
    return [{"arm": arm, "level": "0.2", "edge_time_emd_months": value} for value in values]


def compared(rows: list[dict[str, Any]], profile: str = "tables") -> list[tuple[str, ...]]:
    [spec] = [one for one in AmunPaper.spec["sections"] if one.get("file") == "table-7-times"]
    figures = grid(profile).table(log_of(), rows, {})
    return table(grid(profile).compared(log_of(), figures, spec))


def test_a_figure_stands_beside_the_papers_with_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    """Table 7 has 8.97 months for Sepsis by sampling at 0.2."""
    assert compared(rows_of([2.0]))[0][-3:] == (NOTHING, NOTHING, NOTHING)  # no log of the paper
    monkeypatch.setattr(of_amun, "described", lambda *numbers: SEPSIS)
    [[g, _, arm, here, paper, ratio, why]] = compared(rows_of([2.0, 3.0, 4.0]), "reference")
    assert (g, arm, paper, ratio) == ("0.2", "Amun, sampling", "8.970", "0.334")
    assert here.startswith("3.000 (2.500-3.500)")
    assert "turned around" in why and "compress" in why and "left out" in why
    assert compared(rows_of([2.0, 3.0, 9.0]), "reference")[0][-1] == "within the releases here"
    [[*_, why]] = compared(rows_of([2.0, 3.0, 4.0]))
    assert why == "one run there; its noise is biased by the shortest times"
    thresholds = [
        row
        for share, value in (("1", 5.0), ("5", 4.0))
        for row in rows_of([value], f"PRIPEL at epsilon_t, k = {share} %")
    ]
    [[_, _, arm, here, paper, *_]] = compared(thresholds)
    assert (arm, here) == ("PRIPEL", "4.000 at 5 %")
    assert float(paper) == printed_epsilon("times", "Sepsis", "0.2", "PRIPEL")


def test_table_9_describes_the_log_beside_the_paper(monkeypatch: pytest.MonkeyPatch) -> None:
    figures = grid().table(log_of(), [], {})
    alone = table(grid().described(log_of(), figures, {}))
    assert [row[0] for row in alone][:5] == ["traces", "tasks", "events", "edges", "case variants"]
    assert [row[1] for row in alone] == [
        "6", "5", "20", "5", "4", "3", "4", "5.92 h", "1.27 d", "11.1 h"
    ]  # fmt: skip
    assert {row[2] for row in alone} == {row[3] for row in alone} == {NOTHING}
    assert SEPSIS is not None
    monkeypatch.setattr(of_amun, "described", lambda *numbers: SEPSIS._replace(n_cases=6))
    rows = {row[0]: row for row in table(grid().described(log_of(), figures, {}))}
    assert rows["traces"] == ("traces", "6", "6", NOTHING)
    assert rows["edges"][2:] == ("115", of_amun._OF_TABLE_9["edges"])
    assert rows["mean case"][2] == "4 w"


# --- epsilon_t ------------------------------------------------------------------------------------


@pytest.mark.parametrize("profile", ["reference", "tables"])
def test_the_papers_epsilon_t_is_after_the_division_by_copies(profile: str) -> None:
    """40 cases of one variant. Control: no mean of the log's events knows of copies."""
    rows = [(str(i), letter, i * 3 * DAY_US) for i in range(40) for letter in "AB"]
    [traces] = traces_of(rows)
    params = grid(profile).params("0.2", "sampling")
    plain = amun.of_log(traces, params)
    found = amun.of_releases(traces, params)
    assert found == amun.of_releases(traces, params)  # so a run can be taken up again
    assert found < plain if profile == "reference" else found <= plain
    none = amun.of_log(traces, params.model_copy(update={"mode": "oversampling"}))
    assert none == pytest.approx(plain)
