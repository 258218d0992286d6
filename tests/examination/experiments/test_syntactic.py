"""`tracecloak experiment tlkc|pretsa`: what is run, measured and shown, on synthetic logs."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.examination.experiments.test_run import command, read_rows
from tests.examination.experiments.test_run import log_of as plain_log
from tests.support.logs import read_cases, trace_batch
from tests.support.pages import drawn_in
from tests.support.tlkc_logs import HOUR_US, Case, traces_with
from tracecloak.anonymizers.tlkc.method import Tlkc
from tracecloak.examination.comparison.contenders import Released
from tracecloak.examination.comparison.original import Original
from tracecloak.examination.experiments.other_papers import declaration, top_shares
from tracecloak.examination.experiments.paper import Paper, figures_of
from tracecloak.examination.experiments.run import ROWS, TABLE, Experiment, paper_named
from tracecloak.examination.experiments.table import THE_LOG, Figures, format_figure
from tracecloak.examination.measure.behaviour_measures import RESOURCE
from tracecloak.schemas.errors import GuaranteeError, UsageError
from tracecloak.schemas.events.traces import TraceBatch
from tracecloak.schemas.statistics.variants import VariantHistogram

pytestmark = pytest.mark.filterwarnings("ignore")  # of pm4py's dependencies

DISEASE, AGE = "case:disease", "case:age"
COLUMNS = {RESOURCE: "doctor", DISEASE: "illness", AGE: "years"}
# Events as activity and resource, an hour apart; so many cases.
VARIANTS = {"AX BX CY": 12, "AX BY CY": 8, "AX CY": 6, "AY BX BX CY": 3, "DX": 1}


def cases() -> list[str]:
    return [variant for variant, count in VARIANTS.items() for _ in range(count)]


def case_of(variant: str, i: int, names: Sequence[str] = (DISEASE, AGE)) -> Case:
    events: list[tuple[str, str | None, int]] = [
        (event[0], event[1], step * HOUR_US) for step, event in enumerate(variant.split())
    ]
    values = {DISEASE: f"secret-illness-{i % 4}", AGE: str(20 + i)}
    return events, {name: values[name] for name in names}


def log_of(
    variants: Sequence[str] | None = None, columns: dict[str, str] | None = None
) -> Original:
    """The cases, with the attributes of those columns."""
    columns = COLUMNS if columns is None else columns
    texts = cases() if variants is None else variants
    traces = traces_with({f"c{i}": case_of(text, i) for i, text in enumerate(texts)})
    kept = {name: values for name, values in traces.attributes.items() if name in columns}
    return Original("log", replace(traces, attributes=kept), columns=columns)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """The same as a file whose columns are called otherwise."""
    lines = ["case_id,activity,timestamp,doctor,illness,years"]
    for i, text in enumerate(cases()):
        events, values = case_of(text, i)
        for activity, resource, time in events:
            stamp = f"2026-01-01T{time // HOUR_US:02d}:00:00+00:00"
            own = ",".join(str(value) for value in values.values())
            lines.append(f"secret-{i},{activity},{stamp},{resource},{own}")
    file = tmp_path / "hospital.csv"
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return file


def tlkc(**flags: str) -> Paper:
    small = {"settings": "hours/2/3/0.5", "knowledge": "sequence", "profile": "sparing"}
    return paper_named("tlkc", {**small, **flags})


# --- TLKC: what is run ----------------------------------------------------------------------------


def test_both_algorithms_and_both_baselines_are_run_for_every_kind_and_perspective() -> None:
    grid = paper_named("tlkc", {"sensitive": DISEASE})
    without = [cell.arm for cell in grid.cells(log_of(columns={DISEASE: "illness"}))]
    kinds = ("set", "multiset", "sequence", "relative")
    arms = [f"{method}, {kind}" for method in ("TLKC-EXT", "TLKC") for kind in kinds]
    arms += [f"Baseline-{n}, {kind}" for n in (1, 2) for kind in kinds[2:]]
    assert without == 2 * arms
    cells = list(grid.cells(log_of()))
    assert [cell.arm for cell in cells] == [
        arm + more for more in ("", ", resources", ", activities with resources") for arm in without
    ]
    [found] = [
        cell
        for cell in cells
        if (cell.arm, cell.level) == ("TLKC, multiset, activities with resources", "strong")
    ]
    diseases = [f"secret-illness-{i}" for i in range(4)]
    assert {**found.params, **found.declared} == {
        "k": 60, "length": 6, "confidence": 0.2, "time_unit": "minutes",
        "knowledge_kind": "multiset", "perspective": "activity_resource",
        "algorithm": "frequent_traces", "theta": 0.5, "profile": "paper",
        "resources": {RESOURCE: {"values": ["X", "Y"], "column": "doctor"}},
        "sensitive": {DISEASE: {"values": diseases, "column": "illness"}},
    }  # fmt: skip
    assert all(cell.is_mined == ("resources" not in cell.arm) for cell in cells)


def test_rows_tell_attributes_by_their_columns_and_never_by_values() -> None:
    wanted = Experiment((), paper=tlkc(sensitive=DISEASE))
    [first, second] = (
        wanted.identity(wanted.cells(log_of(columns={DISEASE: column}))[1])
        for column in ("illness", "other")
    )
    assert json.loads(first["params"])["sensitive"] == {DISEASE: "illness"}
    assert first["params"] != second["params"]
    assert "secret" not in json.dumps(first)


def test_numbers_are_declared_by_bounds_and_texts_by_values() -> None:
    ages = {"bounds": [20, 49], "n_bins": 30, "whole": True, "column": "years"}
    assert declaration(log_of(), AGE) == ages
    # Four numbers are values like texts; and a doctor's name is a name if it is a number.
    few = log_of(["AX"] * 4)
    assert declaration(few, AGE)["values"] == ["20", "21", "22", "23"]
    named = pa.array([str(i) for i in range(30)]).dictionary_encode()
    doctors = replace(log_of(["AX"] * 30).traces, attributes={RESOURCE: named})
    found = declaration(Original("log", doctors, columns=COLUMNS), RESOURCE)
    assert found["values"] == sorted(str(i) for i in range(30))
    halves = pa.array([f"{i / 2}" for i in range(30)]).dictionary_encode()
    parts = replace(doctors, attributes={AGE: halves})
    of_parts = declaration(Original("log", parts, columns=COLUMNS), AGE)
    assert of_parts["bounds"] == [0, 14.5] and not of_parts["whole"]


@pytest.mark.parametrize("n_values", [0, 1001])
def test_an_attribute_that_cannot_be_declared_is_refused(n_values: int) -> None:
    values: list[str | None] = [f"v{i}" for i in range(n_values)]
    values = values or [None]
    traces = replace(
        trace_batch({f"c{i}": "A" for i in range(len(values))}),
        attributes={DISEASE: pa.array(values, pa.string()).dictionary_encode()},
    )
    log = Original("log", traces, columns={DISEASE: "illness"})
    with pytest.raises(UsageError, match=r"case:disease must have 1 to 1000 .* got"):
        Experiment((log,), 1, 0, paper=tlkc(sensitive=DISEASE), methods=["k-anonymous-variants"])


# --- what is measured -----------------------------------------------------------------------------


def figures(log: Original, released: TraceBatch) -> dict[str, Any]:
    traces = released.recode(log.vocabulary)
    return figures_of(log, Released(VariantHistogram.from_traces(traces), traces, 0.0))


def test_the_log_itself_is_at_no_distance() -> None:
    found = figures(log_of(), log_of().traces)
    perspectives = ("", "resource_", "activity_resource_")
    for prefix in perspectives:
        for name in ("data_utility", "appropriateness", "graph_f_score", "graph_precision",
                     "graph_occurrence_ratio", "graph_kept", "sampled_truly",
                     "sampled_to_the_unit"):  # fmt: skip
            assert found[prefix + name] == pytest.approx(1)
        assert found[prefix + "total_variation"] == found[prefix + "sampled_unsampled"] == 0
    # By hand: X Y; XXY is two variants of activities, and so on.
    assert [found[prefix + "distinct_elements"] for prefix in perspectives] == [4, 2, 6]
    assert [found[prefix + "distinct_variants"] for prefix in perspectives] == [4, 5, 5]
    assert found["variants_a_case"] == 4 / log_of().traces.n_cases
    assert found["bottlenecks_shared"] == found["cases_kept"] == found["events_kept"] == 1
    assert found["duration_error"] == found["bottlenecks_mean_error"] == 0


def test_a_release_that_its_verifier_rejects_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def rejecting(self: Any, released: Any, params: Any) -> None:
        assert sum(batch.n_cases for batch in released)
        raise GuaranteeError("two cases match")

    monkeypatch.setattr(Tlkc, "verify", rejecting)
    wanted = Experiment((log_of(columns={}),), 1, 0, paper=tlkc())
    refused = {row["arm"]: row.get("refused") for row, _ in wanted.rows()}
    assert refused == {
        THE_LOG: None, "TLKC-EXT, sequence": "two cases match",
        "TLKC, sequence": "two cases match", "Baseline-1, sequence": None,
        "Baseline-2, sequence": None,
    }  # fmt: skip


def test_a_confidence_that_no_release_can_meet_is_said_to_be() -> None:
    """Half of 30 ages and more are within the quartiles, whatever is suppressed."""
    wanted = Experiment((log_of(),), 1, 0, paper=tlkc(sensitive=AGE), methods=["tlkc"])
    said = [row["refused"] for row, _ in wanted.rows() if row["arm"] == "TLKC-EXT, sequence"]
    assert len(said) == 1 and "a value of 'case:age' is above it" in said[0]


# --- TLKC: the command ----------------------------------------------------------------------------

FLAGS = ["--settings", "hours/3/4/0.4", "--knowledge", "set,sequence", "--profile", "sparing"]
READ = ["--resource", "doctor", "--sensitive", f"{DISEASE}=illness"]


@pytest.mark.slow
def test_the_page_shows_every_perspective(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for library in ("pm4py", "sklearn", "matplotlib"):
        pytest.importorskip(library)
    assert command("tlkc", path, *FLAGS, *READ, "--mine", 1) == 0
    out = path.parent / "out"
    rows, page = read_rows(out), (out / "experiment.html").read_text(encoding="utf-8")
    n_cells = 3 * (2 * 2 + 2)
    assert len(rows) == 1 + n_cells and not any("refused" in row for row in rows)
    mined = [row["f_score"] is not None for row in rows]
    assert mined == [row["arm"] == THE_LOG or "resources" not in row["arm"] for row in rows]
    for title in ("Figures 5 and 7", "Figures 6 and 7", "Figure 9", "Figure 10", "Figures 11 and",
                  "Figure 13", "Beside the paper: activities with"):  # fmt: skip
        assert f"<h3>{title}" in page
    table_10 = page.split("<h3>Tables 9 and 10")[1].split("</table>")[0]
    sizes = (4, 4, 4 / 30, 2, 5, 5 / 30, 6, 5, 5 / 30)
    own = "".join(f"<td>{size:.3f}</td>" for size in sizes)
    assert f"<td>the log itself</td>{own}" in table_10
    arm, figures = "TLKC-EXT, set, resources", Figures(rows, (), {})
    [value] = figures.values("resource_data_utility", arm, "hours/3/4/0.4")
    section = page.split("<h3>Figure 10")[1].split("<h3>")[0]
    assert re.search(rf"<td>{arm}</td><td>[^<]*</td><td>{format_figure(value)}<", section)
    images = drawn_in(page, out)
    assert len(set(images)) == len(images) == 8
    assert pq.read_table(out / TABLE).num_rows == len(rows)
    everything = "".join(f.read_text(encoding="utf-8", errors="replace") for f in out.rglob("*.*"))
    assert "secret-" not in everything
    assert "tracecloak experiment tlkc --log hospital.csv --output out" in page
    capsys.readouterr()
    assert command("tlkc", path, *FLAGS, *READ, "--mine", 1) == 0
    assert "TLKC" not in capsys.readouterr().err and read_rows(out) == rows


# --- PRETSA ---------------------------------------------------------------------------------------


def test_the_shares_of_the_most_frequent_followers_are_medians_of_activities() -> None:
    """By hand: A is followed by B 6, C 3, D 1; B by A 2, B 2; C by D 1; D by nothing."""
    log = log_of([*["AX BX"] * 2, *["AX BX AX CX"] * 2, *["AX BX BX"] * 2, "AX CX DX", "AX DX"], {})
    edges = {
        pair: sum(
            pair == (a, b)
            for steps in read_cases(log.traces).values()
            for (a, _), (b, _) in itertools.pairwise(steps)
        )
        for pair in [("A", "B"), ("A", "C"), ("A", "D"), ("B", "A"), ("B", "B"), ("C", "D")]
    }
    assert list(edges.values()) == [6, 3, 1, 2, 2, 1]
    assert top_shares(log) == [pytest.approx(x) for x in (0.6, 1.0, 1.0)]
    assert top_shares(log_of(["AX"], {})) == [None] * 3


def test_figures_2_to_4_are_shown_for_every_t(path: Path) -> None:
    pytest.importorskip("matplotlib")
    flags = ["--k", "2,4", "--t", "0.5,1", "--distances", "levenshtein", "--repetitions", 2]
    assert command("pretsa", path, *flags) == 0
    out = path.parent / "out"
    rows, page = read_rows(out), (out / "experiment.html").read_text(encoding="utf-8")
    assert len(rows) == 1 + 2 * 2 * (2 + 1)
    assert all(row["released_cases"] == 30 for row in rows)
    for number in (2, 3, 4):
        for part in ("t = 0.5", "t = 1", "PRETSA-case"):
            assert re.search(rf"<h3>Figure {number}: [^<]*, {part}</h3>", page)
    assert len(set(drawn_in(page, out))) == 9
    arm = "PRETSA, levenshtein, t = 0.5"
    section = page.split("<h3>Figure 2: advanced behavioural appropriateness, t = 0.5")[1]
    for k in ("2", "4"):
        median = np.median(Figures(rows, (), {}).values("appropriateness", arm, k))
        assert f"<td>{arm}</td><td>{k}</td><td>{format_figure(float(median))}" in section
    # Its two distances from itself are not known where no embedding is asked for.
    table_3 = page.split("<h3>Tables 2 and 3")[1].split("</table>")[0]
    assert "<td>the log itself</td><td>7.500</td><td>20</td><td>-</td><td>-</td><td>" in table_3
    assert "secret-" not in (out / ROWS).read_text()


# --- DPIM -----------------------------------------------------------------------------------------


def test_models_of_the_log_stand_before_both_methods_at_the_paper_s_epsilons() -> None:
    found = list(paper_named("dpim", {}).cells(plain_log()))
    assert [(cell.arm, cell.level, cell.epsilon) for cell in found] == [
        ("IM", "", ""), ("IMf", "", ""), ("flower", "", ""),
        ("dpim", "no noise", "100000"), ("dpim, every pair", "no noise", "100000"),
        ("process-tree", "no noise", "1000"),
        ("dpim", "3.75", "3.75"), ("process-tree", "3.75", "3.75"),
        ("dpim", "1.25", "1.25"), ("process-tree", "1.25", "1.25"),
        ("dpim", "0.125", "0.125"), ("process-tree", "0.125", "0.125"),
    ]  # fmt: skip
    assert all(cell.is_mined for cell in found)
    params = {(cell.arm, cell.level): cell.params for cell in found}
    assert params["dpim", "1.25"] == {"epsilon": "1.25", "bounds_from_log": True}
    names = ["A", "B", "C", "D"]
    assert params["process-tree", "1.25"] == {"epsilon": "1.25", "vocabulary": names}
    # By hand: from the start A B, to the end D, AB AC AD BA BC BD CB CD: with these three, 11.
    assert params["dpim, every pair", "no noise"]["size_bounds"] == [11, 11]
