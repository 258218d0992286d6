"""`tracecloak experiment`: what is run, measured, kept and shown, on synthetic logs."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given

from tests.support.logs import Event, event_logs, read_cases, trace_batch
from tests.support.pages import drawn_in
from tests.support.paper_log import table_1
from tests.support.registered import forget
from tests.support.releasing import csv_log, tracecloak
from tracecloak.anonymizers.amun.params import AmunParams
from tracecloak.examination.comparison import rows as kept
from tracecloak.examination.comparison.original import Original
from tracecloak.examination.comparison.report import INTERNAL
from tracecloak.examination.comparison.rows import Cell
from tracecloak.examination.experiments import amun
from tracecloak.examination.experiments import run as experiment
from tracecloak.examination.experiments.amun import active_cases
from tracecloak.examination.experiments.run import (
    ROWS,
    TABLE,
    Experiment,
    paper_named,
    release_of,
    write_report,
)
from tracecloak.examination.experiments.table import THE_LOG, Figures, format_quartiles
from tracecloak.examination.measure.mining import ModelQuality, PatientMiner
from tracecloak.schemas.errors import UsageError
from tracecloak.schemas.models import leaf

pytestmark = pytest.mark.filterwarnings("ignore")  # of pm4py's dependencies

VARIANTS = {"A B C D": 40, "A C B D": 25, "A B D": 15, "A D": 8, "B A D": 2}


def cases() -> dict[str, str]:
    repeated = [variant for variant, count in VARIANTS.items() for _ in range(count)]
    return {f"secret-{i}": variant for i, variant in enumerate(repeated)}


def log_of(name: str = "log") -> Original:
    return Original(name, trace_batch(cases(), "ABCD"))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return csv_log(
        tmp_path / "hospital.csv",
        [
            (case, activity, f"2026-01-{1 + i % 28:02d}T1{step}:{i % 60:02d}:00+00:00")
            for i, (case, variant) in enumerate(cases().items())
            for step, activity in enumerate(variant.split())
        ],
    )


def sacofa_sapa(**flags: str) -> Any:
    small = {"epsilons": "4", "k_follows": "1", "max_prefix_length": "4", "p_harmful": "2"}
    return paper_named("sacofa-sapa", {**small, **flags})


SMALL = ["--epsilons", "0.5", "--k_follows", "1,2", "--max_prefix_length", "5"]


def command(name: str, path: Path, *flags: object) -> int:
    return tracecloak("experiment", name, "--log", path, "--output", path.parent / "out", *flags)


def read_rows(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / ROWS).read_text().splitlines()]


# --- what is run ----------------------------------------------------------------------------------


def test_another_log_gets_what_the_paper_starts_from() -> None:
    """Of five variants 85 % have at most four events; pruning starts at 2 / epsilon."""
    grid = paper_named("sacofa-sapa", {"epsilons": "1,0.1"})
    assert grid.length(log_of()) == 4
    assert grid.thresholds(log_of(), "1") == (2, None)
    assert grid.thresholds(log_of(), "0.1") == (20, 15)
    own = paper_named("sacofa-sapa", {"epsilons": "1,0.1", "p_harmful": "5,9", "p_harmless": "4"})
    assert [own.thresholds(log_of(), epsilon) for epsilon in ("1", "0.1")] == [(5, 4), (9, 4)]


def test_the_mean_epsilon_of_the_times_is_that_of_table_3() -> None:
    """Cases 2 to 6 are what the filter leaves of the paper's log; 17 events, by hand from it."""
    params = AmunParams(
        guessing_advantage=0.3,
        profile="reference",
        log_start=datetime(2020, 8, 8, 10, 20, tzinfo=UTC),
    )
    [traces] = table_1(without={"1"})
    printed = [1.39, 1.24, 1.24, 1.39, 1.8, 1.24, 1.39, 1.79, 1.24, 1.24, 1.39, 1.79, 1.24, 1.39,
               1.39, 1.24, 1.39]  # fmt: skip
    assert amun.of_log(traces, params) == pytest.approx(sum(printed) / 17, abs=0.009)
    wider = params.model_copy(update={"guessing_advantage": 0.4})
    assert amun.of_log(traces, wider) > sum(printed) / 17 + 0.1


# --- what is measured -----------------------------------------------------------------------------


@given(event_logs())
def test_active_cases_are_those_that_have_begun_and_not_ended(log: list[Event]) -> None:
    traces = trace_batch(log)
    times = np.arange(-1, 4) * 60_000_000
    spans = [(steps[0][1], steps[-1][1]) for steps in read_cases(traces).values()]
    expected = [sum(first <= time <= last for first, last in spans) for time in times]
    assert active_cases(traces, times).tolist() == expected


def test_the_log_itself_is_at_no_distance() -> None:
    amun_of = Experiment((log_of(),), 1, 0, paper=paper_named("amun", {}))
    own, is_new = next(iter(amun_of.rows()))
    assert is_new and own["arm"] == THE_LOG
    distances = ("jaccard_distance", "prefix_jaccard_distance", "variants_lost",
                 "variants_invented", "edge_frequency_emd", "edge_time_emd_months")  # fmt: skip
    assert {own[name] for name in distances} == {0}
    assert own["released_cases"] == 90 and own["released_variants"] == 5


# --- the command ----------------------------------------------------------------------------------


def test_the_page_the_charts_and_the_table_show_the_rows(
    path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What mines in a process of its own is tested where that is."""
    for library in ("pm4py", "sklearn", "matplotlib"):
        pytest.importorskip(library)
    quality = ModelQuality(0.9, 0.5, 0.8, 0.7, leaf("A"))
    monkeypatch.setattr(PatientMiner, "mined", lambda self, asked: quality)
    assert command("sacofa-sapa", path, *SMALL, "--repetitions", 2, "--mine", 1) == 0
    out = path.parent / "out"
    rows, page = read_rows(out), (out / "experiment.html").read_text(encoding="utf-8")
    arms = "SaCoFa", "Laplace", "SaPa", "SaPa, k = 2", "DF-Laplace", "SaCoFa, two thresholds"
    expected = [(arm, "0.5") for arm in arms]
    table = pq.read_table(out / "experiment.parquet").to_pylist()
    assert [(row["arm"], row["level"]) for row in table] == [
        (THE_LOG, ""), *expected, *expected
    ]  # fmt: skip
    order = [(row["arm"], row["level"], row["repetition"]) for row in table]
    rows.sort(key=lambda row: order.index((row["arm"], row["level"], row["repetition"])))
    assert len(rows) == len(table)
    assert not any("refused" in row for row in rows)
    assert all((row["f_score"] is None) == (row["repetition"] == 1) for row in rows[1:])
    assert 0 < rows[0]["f_score"] <= 1 and rows[0]["tree"] and rows[0]["relative_size"] == 1

    table = pq.read_table(out / TABLE)
    assert table.num_rows == len(rows)
    assert table.column("sequence_entropy").to_pylist() == [r["sequence_entropy"] for r in rows]
    assert table.schema.metadata[b"tracecloak.publishable"] == b"false"

    assert INTERNAL in page
    assert "tracecloak experiment sacofa-sapa --log hospital.csv --output out" in page
    assert "90 cases, 327 events, 5 variants, 4 activities" in page
    for number in range(2, 11):
        assert f"Figure {number}: " in page
    shown = format_quartiles(Figures(rows, (), {}).values("normal_share", "SaPa", "0.5"))
    section = page.split("<h3>Figure 8")[1].split("<h3>")[0]
    assert re.search(rf"<td>SaPa</td><td>0.5</td><td>{re.escape(shown)}</td>", section)
    images = drawn_in(page, out)
    assert len(set(images)) == len(images) == 10
    for image in images:
        assert "not private" in (out / image).read_text(encoding="utf-8")
    everything = "".join(f.read_text(encoding="utf-8", errors="replace") for f in out.rglob("*.*"))
    assert "secret-" not in everything and str(path.parent) not in everything
    assert "not private" in capsys.readouterr().out


def test_tables_6_to_8_and_figure_3(path: Path) -> None:
    pytest.importorskip("matplotlib")
    flags = ["--guessing_advantages", "0.3", "--pruning", "1,20", "--repetitions", 2]
    assert command("amun", path, *flags) == 0
    out = path.parent / "out"
    rows, page = read_rows(out), (out / "experiment.html").read_text(encoding="utf-8")
    assert len(rows) == 1 + 2 * (3 + 2 * 3)
    titles = ("Table 6", "Table 7", "Table 8", "Table 9", "Figure 3", "Lost variants")
    for title in titles:
        assert f"<h3>{title}" in page
    name = "SaCoFa at epsilon_d, k = {} %"
    medians = {
        share: np.median([r["jaccard_distance"] for r in rows if r["arm"] == name.format(share)])
        for share in ("1", "20")
    }
    best = min(medians, key=lambda share: medians[share])
    table = page.split("<h3>Table 6: ")[1].split("</table>")[0]
    assert re.search(rf"<td>SaCoFa</td><td>{medians[best]:.3f}[^<]* at {best} %</td><td>", table)
    timed = [row for row in rows if row["edge_time_emd_months"] is not None]
    assert {row["arm"].split(" ")[0] for row in timed} == {"the", "Amun,", "PRIPEL"}
    assert all(len(row["active_cases"]) == 121 for row in timed)
    assert drawn_in(page, out) == ["figures/figure-3-hospital.svg"]


def test_rows_that_are_there_are_not_computed_again(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run ends in the middle of a line; the next one computes what is missing and no more."""
    wanted = Experiment((log_of(),), 3, 0, paper=sacofa_sapa())
    rows_path = path.parent / ROWS
    made = iter(range(5))

    def interrupted(log: Original, cell: Cell) -> Any:
        if cell.method and next(made, None) is None:
            raise KeyboardInterrupt
        return release_of(log, cell)

    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(experiment, "release_of", interrupted)
        wanted.run(rows_path)
    before = read_rows(path.parent)
    assert len(before) == 1 + 5
    with rows_path.open("a") as stream:
        stream.write('{"version": "cut o')
    assert len(wanted.run(rows_path)) == 1 + 4 * 3
    after = read_rows(path.parent)
    assert after[:6] == before and len(after) == 1 + 4 * 3
    assert wanted.run(rows_path) == after == read_rows(path.parent)
    more = Experiment((log_of(),), 4, 0, paper=sacofa_sapa())
    assert len(more.run(rows_path)) == 1 + 4 * 4
    assert read_rows(path.parent)[:13] == after
    # Other rows are computed with other parameters, for another log of the same name, and by other
    # code.
    given = Experiment((log_of(),), 1, 0, methods=["sacofa"], paper=sacofa_sapa(p_harmful="3"))
    assert [is_new for _, is_new in given.rows(after)] == [False, True]
    fewer = dict(list(cases().items())[1:])
    other = Experiment((Original("log", trace_batch(fewer, "ABCD")),), 1, 0, paper=sacofa_sapa())
    assert [is_new for _, is_new in other.rows(after)] == [True] * 5
    monkeypatch.setattr(kept, "code_version", lambda: "0.2 another")
    assert all(is_new for _, is_new in wanted.rows(after))


def test_the_same_rows_make_the_same_bytes(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    matplotlib = pytest.importorskip("matplotlib")
    flags = ["--guessing_advantages", "0.3", "--repetitions", 1]
    assert command("amun", path, *flags) == 0
    files = [f for f in sorted((path.parent / "out").rglob("*.*")) if f.is_file()]
    before = {f: f.read_bytes() for f in files}
    monkeypatch.setitem(matplotlib.rcParams, "lines.linewidth", 9)  # of this machine's user
    assert command("amun", path, *flags) == 0
    assert {f: f.read_bytes() for f in files} == before


def test_a_refusal_is_a_row_and_the_others_go_on(
    path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("matplotlib")

    def refusing(log: Original, cell: Cell) -> Any:
        if cell.arm == "Amun, filtering":
            raise UsageError("too many candidates")
        return release_of(log, cell)

    monkeypatch.setattr(experiment, "release_of", refusing)
    flags = ["--methods", "amun", "--guessing_advantages", "0.3", "--repetitions", 2]
    assert command("amun", path, *flags) == 0
    rows = read_rows(path.parent / "out")
    assert [row.get("refused") for row in rows if row["arm"] == "Amun, filtering"] == [
        "too many candidates"
    ]
    page = (path.parent / "out" / "experiment.html").read_text()
    assert "Amun, filtering at 0.3 was refused after 0 releases: too many candidates." in page
    assert len(rows) == 1 + 2 + 1 + 2
    assert "missing" not in capsys.readouterr().out  # what was refused is not
    assert command("amun", path, *flags) == 0
    assert read_rows(path.parent / "out") == rows


def test_a_model_that_takes_too_long_is_said_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And is tried again with more patience, but not with as much."""
    for library in ("pm4py", "sklearn", "matplotlib"):
        pytest.importorskip(library)

    def slow(self: Any, released: Any) -> Any:
        raise TimeoutError("mining took longer than 3 s")

    monkeypatch.setattr(PatientMiner, "mined", slow)
    wanted = Experiment((log_of(),), 2, 2, 3, paper=sacofa_sapa(), methods=["sacofa"])
    rows = wanted.run(tmp_path / ROWS)
    assert [(row["f_score"], row["mine_patience"]) for row in rows] == [(None, 3)] * 3
    write_report(wanted, rows, {"log": []}, "", tmp_path)
    page = (tmp_path / "experiment.html").read_text()
    assert "<h3>Figure 5" in page and "<h3>Figure 2" not in page  # of which nothing is known
    assert "SaCoFa at 4: 2 models took too long to be judged" in page
    assert not any(is_new for _, is_new in wanted.rows(rows))
    longer = Experiment((log_of(),), 2, 1, 4, paper=sacofa_sapa(), methods=["sacofa"])
    assert sorted(is_new for _, is_new in longer.rows(rows)) == [False, True, True]
    again = longer.run(tmp_path / ROWS)  # whichever model was mined first
    assert [(row["arm"], row["repetition"]) for row in again] == [
        (row["arm"], row["repetition"]) for row in rows
    ]


@pytest.mark.parametrize(
    ("name", "flags", "said"),
    [
        ("tlck", [], "experiment must be one of amun, sacofa-sapa, tlkc, pretsa, dpim, got 'tlck'"),
        ("amun", ["--epsilons", "1"], "unknown flag --epsilons"),
        ("amun", ["--guessing_advantages", "1"], "guessing_advantages must be numbers above 0"),
        ("amun", ["--profile", "old"], "profile must be one of paper, reference, tables"),
        ("amun", ["--methods", "sapa"], "methods must be of amun, pripel, sacofa, got 'sapa'"),
        ("amun", ["--repetitions", "0"], "repetitions must be at least 1, got 0"),
        ("sacofa-sapa", ["--epsilons", "1,1"], "distinct and separated by commas, got '1,1'"),
        ("sacofa-sapa", ["--k_follows", "1.5"], "k_follows must be whole numbers"),
        ("sacofa-sapa", ["--p_harmful", "3,4"], "one for each of the 3 epsilons, got 2"),
        ("sacofa-sapa", ["--p_harmful", "3", "--p_harmless", "4"], "p_harmless must be at most"),
        ("sacofa-sapa", ["--mine", "-1"], "mine must be at least 0, got -1"),
        ("sacofa-sapa", ["--where", "case_id = nobody"], "has no case"),
        ("tlkc", ["--settings", "middling"], "settings must be weak, strong, all, or T/L/K/C"),
        ("tlkc", ["--settings", "hours/0/20/0.5"], "length: must be at least 1, got 0"),
        ("tlkc", ["--knowledge", "set,guess"], "knowledge must be some of set, multiset"),
        ("tlkc", ["--sensitive", "illness"], "sensitive 'illness' must be case:NAME"),
    ],
)
def test_a_wrong_command_is_refused_before_anything_is_written(
    path: Path, name: str, flags: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command(name, path, *flags) == 2
    assert said in capsys.readouterr().err
    assert not (path.parent / "out").exists()


def test_two_logs_of_one_name_and_no_method_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match="log 'log' is there twice"):
        Experiment((log_of(), log_of()), paper=paper_named("amun", {}))
    forget(monkeypatch, "amun")
    with pytest.raises(UsageError, match="none of the methods is there: amun"):
        Experiment((log_of(),), paper=paper_named("amun", {}), methods=["amun"])
