"""`tracecloak evaluate`: logs, graphs and trees, what stands beside them, and what is refused."""

from __future__ import annotations

import importlib.util
import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

import pytest

from tests.support.releasing import csv_log, individual_log, tracecloak
from tracecloak.examination.evaluation import evaluate, internal
from tracecloak.examination.evaluation.evaluate import verdict_of
from tracecloak.examination.measure.mining import PatientMiner
from tracecloak.examination.measure.registry import MEASURES
from tracecloak.pipelines.configuration.config import load_log
from tracecloak.pipelines.configuration.plan import source_of
from tracecloak.transforms.sources import EventSource

ROWS = [
    (f"c{case}", name, f"2026-01-{1 + case % 28:02d}T{8 + 2 * step + case % 2:02d}:{case % 60:02d}")
    for case in range(200)
    for step, name in enumerate("ABC" if case % 5 else "AC")
]


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TRACECLOAK_KEY_STORE", str(tmp_path / "keys"))
    csv_log(tmp_path / "log.csv", ROWS)
    (tmp_path / "names.txt").write_text("A\nB\nC\n")
    return tmp_path


def released(place: Path, method: str, *flags: object) -> Path:
    name = f"r{len(list(place.glob('out/run_id=*')))}"
    assert tracecloak(
        "release", "--log", place / "log.csv", "--output", place / "out", "--release_id", name,
        "--method", method, "--runner", "InMemory", "--formats", "parquet",
        "--vocabulary", place / "names.txt", *flags,
    ) == 0  # fmt: skip
    return place / "out" / f"run_id={name}"


def evaluated(place: Path, release: Path, log: str = "log.csv", code: int = 0) -> dict[str, Any]:
    report = place / "e.json"
    flags = ("--log", place / log, release, "--output", report)
    assert tracecloak("evaluate", *flags) == code
    return json.loads(report.read_text()) if code == 0 else {}


LOG = ("private-log", "--epsilon", 20, "--max_trace_length", 4, "--first_date", "2026-01-01",
       "--last_date", "2026-01-31", "--variants", "variant-histogram")  # fmt: skip


def test_a_log_gets_every_measure_in_its_range_beside_two_lines(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    release = released(place, *LOG)
    capsys.readouterr()
    found = evaluated(place, release)
    timed = {name for name, own in MEASURES.items() if own.needs == ["times"]}
    # Without starts of events there is neither service nor waiting.
    of_starts = ("service_time_error", "waiting_time_error")
    assert {n for n in timed if not n.startswith(("bottlenecks", *of_starts))} <= found.keys()
    for name in found["legend"]:
        measure = MEASURES[name]
        for line in (found, found["bootstrap"], found["of_the_log"]):
            assert line[name] is None or measure.range[0] <= line[name] <= measure.range[1], name
    own, drawn = found["of_the_log"], found["bootstrap"]
    for name, value in own.items():
        if MEASURES[name].better == "less":
            assert value == pytest.approx(0, abs=1e-12), name
            assert drawn[name] >= 0
    assert drawn["variant_emd"] > 0 and drawn["case_duration_distance"] > 0
    # By hand: all but a fifth of the cases are A B C, whose second half is like the first.
    assert found["variant_emd"] < 0.1
    assert own["duration_eta_squared"] is not None and own["drift"] < 0.1
    printed = capsys.readouterr().out
    for title in ("variant EMD", "DFG error", "eta squared", "wait of big pairs", "next activity"):
        assert title in printed
    assert "by the ledger it read nearly all" in printed
    assert "release  bootstrap  log itself  better" in printed
    page = (place / "e.md").read_text()
    assert "INTERNAL" in page and "Source: " in page
    assert "c1" not in page + printed


def test_stamps_that_are_positions_are_not_compared_as_times(place: Path) -> None:
    flags = ("variant-histogram", "--epsilon", 50, "--delta", "1e-5")
    found = evaluated(place, released(place, *flags))
    assert found["true_variant_mass"] == 1
    assert "hour_of_week_total_variation" not in found


def test_every_judge_has_equal_stamps_of_a_table_in_the_order_of_a_release(place: Path) -> None:
    csv_log(place / "ties.csv", [("c", name, "2026-01-01T08:00") for name in "CAB"])
    source = replace(source_of(load_log({"log": str(place / "ties.csv")})), is_unordered=True)
    for read in (EventSource.log, lambda log: internal._read(log)[0]):
        traces = read(source)
        names = traces.vocabulary.labels
        assert [names[code] for code in traces.activities] == ["A", "B", "C"]


def test_a_graph_is_measured_with_its_intervals(place: Path) -> None:
    wide = released(place, "private-dfg", "--epsilon", 1, "--l2_clip", 4)
    found = evaluated(place, wide)
    # Of five edges three fail once in 800 keys.
    assert 0.4 <= found["interval_coverage"] <= 1
    # What the clip takes is 0, with a noise of 3.44 times that of an edge, of which an upper limit
    # is 1.645 deviations higher. An edge has .42 of it, so that on the mean the width of 3.92
    # deviations is 1.6 times as much, and 2.8 times as much where that noise has 3.2 deviations.
    assert 0.5 < found["interval_width"] < 2.8
    assert found["of_the_log"]["edge_relative_error"] == 0
    assert 0 < found["bootstrap"]["edge_relative_error"] < 0.3
    # Of a clip of a third of a case's norm intervals allow for what it takes: they are as wide.
    clipped = evaluated(place, released(place, "private-dfg", "--epsilon", 1000, "--l2_clip", 1))
    assert clipped["interval_coverage"] == 1 and clipped["interval_width"] > 10
    # What is not declared counts as another: so do the exact counts that intervals shall hold.
    (place / "names.txt").write_text("A\nC\n")
    exact = released(place, "private-dfg", "--epsilon", 1000, "--l2_clip", 8)
    assert evaluated(place, exact)["interval_coverage"] == 1
    bought = evaluated(place, released(place, "private-dfg", "--epsilon", 10))
    assert bought["interval_coverage"] is not None and bought["interval_width"] is None


@pytest.mark.filterwarnings("ignore")  # of pm4py's dependencies
def test_a_tree_is_judged_on_the_log(
    place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    release = released(place, "process-tree", "--epsilon", 50)
    if importlib.util.find_spec("pm4py"):
        found = evaluated(place, release)
        assert found["tree_fitness"] > 0.8 and 0 < found["tree_precision"] <= 1
        assert 0.8 < found["tree_share"] <= 1 and found["tree_note"] is None

    # That its process is ended in time is tested where that is: here no clock decides.
    def slow(*_: object) -> NoReturn:
        raise TimeoutError("mining took longer than 600 s")

    with monkeypatch.context() as patch:
        patch.setattr(PatientMiner, "mined", slow)
        patch.setattr(evaluate, "require_pm4py", lambda: None)
        late = evaluated(place, release)
    assert 0.8 < late["tree_share"] <= 1 and "tree_fitness" not in late
    assert "longer than 600 s" in late["tree_note"]

    monkeypatch.setitem(sys.modules, "pm4py", None)
    without = evaluated(place, release)
    assert without["tree_share"] == late["tree_share"]
    assert "tree_fitness" not in without and "needs pm4py" in without["tree_note"]
    assert without["tree_note"] in capsys.readouterr().out
    assert without["tree_note"] in (place / "e.md").read_text()


def other_log(place: Path, change: Any) -> str:
    csv_log(place / "other.csv", [change(*row) for row in ROWS])
    return "other.csv"


def test_a_release_of_another_log_is_refused(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    release = released(place, *LOG)
    for change, said in (
        (lambda case, name, at: (case, f"x{name}", at), "no activity in common"),
        (lambda case, name, at: (case, name, at.replace("2026", "2024")), "within its first_date"),
        (lambda case, name, at: (f"p{case}", name, at), "the ledger notes that it read other"),
    ):
        capsys.readouterr()
        evaluated(place, release, other_log(place, change), code=2)
        told = capsys.readouterr().err
        assert "is of another log" in told and said in told
        assert "xA" not in told and "pc" not in told
    assert not (place / "e.json").exists()


def test_what_cannot_be_told_is_said(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the operator's ledger, other people with the same activities pass, and it says so."""
    release = released(place, *LOG)
    same_names = other_log(place, lambda case, name, at: (f"p{case}", name, at))
    monkeypatch.setenv("TRACECLOAK_KEY_STORE", str(place / "nowhere"))
    found = evaluated(place, release, same_names)
    assert found["origin"].startswith("not known")
    assert not (place / "nowhere").exists()


def test_a_ledger_that_cannot_be_read_is_told_where_it_was_named(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    release = released(place, *LOG)
    (place / "keys" / "ledger.db").write_bytes(b"no database" * 100)
    assert evaluated(place, release)["origin"].startswith("not known")
    flags = ("--log", place / "log.csv", release, "--output", place / "e.json")
    capsys.readouterr()
    ledger = f"sqlite:///{place / 'keys' / 'ledger.db'}"
    assert tracecloak("evaluate", *flags, "--ledger", ledger) != 0
    assert "ledger" in capsys.readouterr().err


def test_where_the_log_is_and_how_it_is_read_can_be_said_by_the_configuration(place: Path) -> None:
    """Catches a configuration whose columns or filters are left out, or that has the last word."""
    release = released(place, *LOG)
    text = (place / "log.csv").read_text()
    head, _, rows = text.partition("\n")
    columns = head.split(",")
    others = ",".join(f"x_{name}" for name in columns)
    (place / "other.csv").write_text(f"{others}\n{rows}")
    named = "".join(f"  {name}: x_{name}\n" for name in columns if name != "lifecycle")
    config = place / "release.yaml"
    config.write_text(
        f"log: {place / 'other.csv'}\ncolumns:\n{named}where: [{{column: activity, equals: [A]}}]\n"
        "method: private-log\noutput: nowhere\nparams: {epsilon: 1}\n"
    )
    report = place / "e.json"
    given = ("evaluate", release, "--config", config, "--output", report)
    assert tracecloak(*given) == 0
    filtered = json.loads(report.read_text())
    assert filtered["original"]["events"] == rows.count(",A,")
    assert tracecloak(*given, "--where", "activity = A, B") == 0
    assert json.loads(report.read_text())["original"]["events"] == len(ROWS) - rows.count(",C,")


def test_a_log_that_nothing_names_is_missing(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert tracecloak("evaluate", "nowhere", "--output", place / "e.json") == 2
    assert "log: required" in capsys.readouterr().err


@pytest.mark.parametrize("method", ["private-dfg", "variant-histogram"])
def test_a_release_of_one_case_a_person_is_compared_with_one_case_a_person(
    place: Path, method: str
) -> None:
    """Each of 100 people has one case A B or three cases A C, by which the log has other shares."""
    rows = [
        (f"p{person}", f"{person}-{case}", name, f"2026-01-01T{hour:02}:00")
        for person in range(100)
        for case in range(3 if person % 2 else 1)
        for hour, name in enumerate("AC" if person % 2 else "AB")
    ]
    individual_log(place / "log.csv", rows)
    flags = ("--individual_id", "person", "--max_cases_per_individual", 1)
    release = released(place, method, "--epsilon", 100, "--delta", "1e-6", *flags)
    report = place / "e.json"

    def found(*more: object) -> dict[str, Any]:
        log = ("--log", place / "log.csv", "--output", report)
        assert tracecloak("evaluate", release, *log, *more) == 0
        return dict(json.loads(report.read_text()))

    counted = found(*flags[:2])
    assert counted["original"]["cases"] == 100
    assert counted["edge_relative_error"] < 0.1  # against the whole log it is .5 and more
    assert "100 of the original's 200 cases" in counted["population_note"]
    assert counted["verdict"]["uses"][0]["grade"] == "good"
    by_shares = found()
    assert by_shares["original"]["cases"] == 200
    assert by_shares["edge_relative_error"] == 2 * by_shares["edge_total_variation"]
    assert by_shares["edge_relative_error"] == pytest.approx(1 / 3, abs=0.1)
    assert by_shares.get("relative_size") is None and by_shares.get("interval_coverage") is None
    assert "map individual_id" in by_shares["population_note"]


def test_the_sentence_has_uses_by_grade_with_their_errors() -> None:
    report = {
        "edge_relative_error": 0.034,
        "activity_mix_total_variation": 0.01,
        "variant_total_variation": 0.61,
        "case_duration_distance": 0.24,
        "edge_recall": 0.2,
        "misplaced_waiting_time": None,
    }
    found = verdict_of(report)
    assert found["sentence"] == (
        "Good for how often activities occur (1 % off), how often one activity follows another "
        "(3 % off). Rough for how long cases take (24 % off). Not for the variants and their "
        "shares (61 % off)."
    )
    assert {use["measure"] for use in found["uses"]} == set(list(report)[:4])


@pytest.mark.parametrize(
    ("error", "drawn", "grade"),
    [(0, None, "good"), (0.1, None, "good"), (0.1001, None, "rough"), (1 / 3, None, "rough"),
     (0.334, None, "no"), (0.5, 0.5, "good"), (0.5, 0.49, "no")],
)  # fmt: skip
def test_bounds_belong_to_the_better_grade_and_none_need_be_nearer_than_a_bootstrap(
    error: float, drawn: float | None, grade: str
) -> None:
    [use] = verdict_of({"variant_emd": error, "bootstrap": {"variant_emd": drawn}})["uses"]
    assert use["grade"] == grade


def test_what_is_the_better_the_more_it_is_counts_by_what_the_log_gets() -> None:
    report = {"next_activity_accuracy": 0.6, "of_the_log": {"next_activity_accuracy": 0.8}}
    [use] = verdict_of(report)["uses"]
    assert use["error"] == pytest.approx(0.25) and use["grade"] == "rough"
    [better] = verdict_of({**report, "next_activity_accuracy": 0.9})["uses"]
    assert better["error"] == 0
