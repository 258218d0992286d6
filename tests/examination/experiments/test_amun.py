"""The experiment on Amun beside its paper: printed figures, reasons, epsilon_t and Table 9."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.paper_log import DAY_US, table_1, traces_of
from tracecloak.examination.comparison.original import Original
from tracecloak.examination.experiments import amun
from tracecloak.examination.experiments.amun import AmunPaper
from tracecloak.examination.experiments.run import paper_named, release_of
from tracecloak.examination.experiments.table import NOTHING


def grid(profile: str = "tables") -> AmunPaper:
    found = paper_named("amun", {"guessing_advantages": "0.2,0.3", "profile": profile})
    assert isinstance(found, AmunPaper)
    return found


def log_of() -> Original:
    [traces] = table_1()
    return Original("table 1", traces)


# --- what the paper prints ------------------------------------------------------------------------


def as_sepsis(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = {"cases": 1050, "events": 15214, "variants": 846}
    monkeypatch.setattr(Original, "identity", lambda self: sizes)


def rows_of(values: list[float], arm: str = "Amun, sampling") -> list[dict[str, object]]:
    return [{"arm": arm, "level": "0.2", "edge_time_emd_months": value} for value in values]


def compared(rows: list[dict[str, Any]], profile: str = "tables") -> list[Any]:
    [spec] = [one for one in AmunPaper.spec["sections"] if one.get("file") == "table-7-times"]
    figures = grid(profile).table(log_of(), rows, {})
    return list(grid(profile).compared(log_of(), figures, spec).rows)


def test_a_figure_stands_beside_the_papers_with_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    """Table 7 has 8.97 months for Sepsis by sampling at 0.2, and 8.68 by PRIPEL."""
    assert compared(rows_of([2.0]))[0][-3:] == (NOTHING, NOTHING, NOTHING)  # no log of the paper
    as_sepsis(monkeypatch)
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
    assert (arm, here, paper) == ("PRIPEL", "4.000 at 5 %", "8.680")


def test_table_9_describes_the_log_beside_the_paper(monkeypatch: pytest.MonkeyPatch) -> None:
    own = grid().figures(log_of(), release_of(log_of(), grid().log_cell()), grid().log_cell())
    found = {name: own[name] for name in ("tasks", "edges", "shortest_trace", "longest_trace")}
    assert found == {"tasks": 5, "edges": 5, "shortest_trace": 3, "longest_trace": 4}
    assert own["shortest_days"] == pytest.approx(5.92 / 24, abs=0.001)
    assert own["longest_days"] == pytest.approx(1.27, abs=0.01)
    as_sepsis(monkeypatch)
    sections = grid().sections(log_of(), grid().table(log_of(), [], own))
    [table_9] = [one for one in sections if one.file == "table-9"]
    assert [(row[0], row[2]) for row in table_9.rows] == [
        ("the log itself", "5.000"), ("the paper", "115")
    ]  # fmt: skip


# --- epsilon_t ------------------------------------------------------------------------------------


@pytest.mark.parametrize("profile", ["reference", "tables"])
def test_the_papers_epsilon_t_is_after_the_division_by_copies(profile: str) -> None:
    """40 cases of one variant. Control: no mean of the log's events knows of copies."""
    rows = [(str(i), letter, i * 3 * DAY_US) for i in range(40) for letter in "AB"]
    [traces] = traces_of(rows)
    params = grid(profile).params("0.2", "sampling")
    plain = amun.of_log(traces, params)
    found = amun.released_epsilon(traces, params)
    assert found == amun.released_epsilon(traces, params)  # so a run can be taken up again
    assert found < plain if profile == "reference" else found <= plain
    none = amun.of_log(traces, params.model_copy(update={"mode": "oversampling"}))
    assert none == pytest.approx(plain)
