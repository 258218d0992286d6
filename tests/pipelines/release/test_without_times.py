"""Releases without times: no file, page, figure or measure of them has any.

Catches a way by which the numbers of events are shown as seconds of 1970, as they once were.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

from tests.golden.releases import data_of, example_config, log_file
from tests.support.examples import examples_of
from tests.support.received import edited, rewritten
from tests.support.releasing import tracecloak
from tests.support.tiers import at_night
from tracecloak.anonymizers.registry import METHODS
from tracecloak.examination.measure.registry import MEASURES
from tracecloak.pipelines.verification.data import Contents
from tracecloak.pipelines.verification.received import Received
from tracecloak.schemas.published.manifest import has_times
from tracecloak.transforms.publish.figures_data import NO_STARTS, NO_TIMES

BY_DAY = {"pretsa", "variant-histogram", "auto-variants", "sapa", "private-log"}


def untimed() -> dict[str, Mapping[str, Any]]:
    """The first example without times of each method that releases a log."""
    found = {}
    for name, method in METHODS.builtins.items():
        for example in examples_of(method) if method.log != "none" else ():
            if not has_times(method.operations_of(method.Params(**example))):
                found.setdefault(name, example)
    return found


EXAMPLES = untimed()


def released(folder: Path, method: str, **changes: Any) -> Path:
    example = EXAMPLES.get(method) or METHODS[method].examples[0]
    body = example_config(folder, method, example, log_file(folder))
    if "epsilon" in body["params"]:
        body["params"]["epsilon"] = "100"  # so that something comes out
    (folder / "release.yaml").write_text(yaml.safe_dump({**body, **changes}), encoding="utf-8")
    assert tracecloak("release", folder / "release.yaml") == 0
    return folder / "out" / "run_id=golden"


@pytest.mark.parametrize("method", [n if n in BY_DAY else at_night(n) for n in EXAMPLES])
def test_nothing_of_a_release_without_times_is_a_time(tmp_path: Path, method: str) -> None:
    release = released(tmp_path, method)
    columns = ["case_id", "activity", "event_index", *EXAMPLES[method].get("duration", ())]
    for part in (release / "log").iterdir():
        assert pq.read_schema(part).names == columns
    csv = gzip.decompress((release / "log.csv.gz").read_bytes()).decode()
    assert csv.partition("\n")[0] == ",".join(columns)
    xes = gzip.decompress((release / "log.xes.gz").read_bytes()).decode()
    assert "<date" not in xes and 'prefix="time"' not in xes and xes.count("<trace>") > 100
    page = (release / "report.html").read_bytes()
    shown = json.loads(data_of(page))
    assert shown["times"] is None and shown["map"]["edges"]
    assert all(edge["median_s"] is None for edge in shown["map"]["edges"])
    assert NO_TIMES in page.decode() and "1970" not in page.decode()
    assert tracecloak("verify", release) == 0
    report = tmp_path / "e.json"
    assert tracecloak("evaluate", release, "--log", tmp_path / "log.csv", "--output", report) == 0
    measured = json.loads(report.read_text())["legend"]
    assert measured and not any("times" in MEASURES[name].needs for name in measured)


@pytest.mark.parametrize("method", ["tlkc", "pretsa-case"])
def test_a_page_of_times_since_one_public_time_does_not_tell_when_cases_begin(
    tmp_path: Path, method: str
) -> None:
    release = released(tmp_path, method)
    page = (release / "report.html").read_bytes()
    shown = json.loads(data_of(page))["times"]
    assert shown["spans"] and shown["starts"] == [] and shown["week"] is None
    assert NO_STARTS in page.decode() and 'id="starts"' not in page.decode()
    report = tmp_path / "e.json"
    assert tracecloak("evaluate", release, "--log", tmp_path / "log.csv", "--output", report) == 0
    body = json.loads(report.read_text())
    assert body["drift"] is None is body["hour_of_week_total_variation"]
    assert body["case_duration_distance"] is not None


def test_a_log_with_the_seconds_of_an_earlier_version_is_read(tmp_path: Path) -> None:
    release = released(tmp_path, "variant-histogram")
    [part, *_] = sorted((release / "log").iterdir())
    stamped = pq.read_table(part).rename_columns(["case_id", "activity", "timestamp"])
    now = Contents(Received.at(str(release))).whole()
    assert now is not None and now.durations.max() < 100
    seconds = stamped["timestamp"].cast(pa.timestamp("s", "UTC")).cast(pa.timestamp("us", "UTC"))
    pq.write_table(stamped.set_column(2, "timestamp", seconds), part)
    rewritten(release, f"log/{part.name}", part.read_bytes())
    of_part = (f"log/{part.name}", "statement.md")

    def earlier(body: Any) -> None:
        body["tool"]["version"] = "0.1.0"
        body["outputs"] = [one for one in body["outputs"] if one["path"] in of_part]

    edited(release, earlier)
    before = Contents(Received.at(str(release))).whole()
    assert before is not None and before.n_events == stamped.num_rows
