"""What `make demo` says at its end: figures of the evaluations, in words."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tracecloak.examination.demo.demo_summary import main

GRAPH = {"edge_relative_error": 0.0714, "edge_precision": 0.9966, "edge_recall": 0.784}
LOG = {
    **GRAPH,
    "original": {"cases": 30_000},
    "released": {"cases": 29_974},
    "edge_relative_error": 0.0926,
    "case_duration_distance_days": 0.404,
}


def test_each_release_has_its_figures(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, method, found in (("graph", "private-dfg", GRAPH), ("log", "private-log", LOG)):
        folder = tmp_path / "releases" / f"run_id={name}"
        folder.mkdir(parents=True)
        (folder / "manifest.json").write_text(json.dumps({"method": method}))
        (tmp_path / f"evaluation-{name}.json").write_text(json.dumps(found))
    main([str(tmp_path)])
    graph, log, first = capsys.readouterr().out.strip().split("\n\n")
    assert graph.startswith(f"private-dfg  {tmp_path}/releases/run_id=graph/")
    assert "counts: off by 7.1 % (sum of the errors" in graph
    assert "99.7 % of those released occur in the hospital, and 78.4 % of its pairs" in graph
    assert "cases" not in graph
    assert log.startswith(f"private-log  {tmp_path}/releases/run_id=log/")
    assert "cases: 29,974 for 30,000 of the hospital" in log
    assert "counts: off by 9.3 %" in log
    assert "durations of cases: off by 0.40 days" in log
    page = (tmp_path / "releases" / "run_id=log" / "report.html").as_uri()
    assert first.startswith(f"Open this first, in a browser: {page}\n")
    assert "run_id%3Dgraph/report.html" in first
