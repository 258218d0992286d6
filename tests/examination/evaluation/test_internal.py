"""The operator's page: the release's numbers beside the log's, and nothing of it in the release."""

import json
import os
import re
import stat
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.golden.releases import data_of
from tests.support.releasing import csv_log, released, tracecloak
from tracecloak.examination.evaluation.internal import attack_of, risk_curve
from tracecloak.schemas.errors import UsageError
from tracecloak.schemas.events.traces import TraceBatch
from tracecloak.schemas.published.manifest import Guarantee, ReleaseManifest

WORDS = ("ABC", "ABC", "ABBC", "AC")
ROWS = [
    (f"case-{case}", name, f"2026-01-{1 + case % 28:02d}T{6 + place:02d}:00:00Z")
    for case in range(400)
    for place, name in enumerate(WORDS[case % 4])
]
BROKEN = [("case-x", "A", "yesterday"), ("case-y", "", "2026-01-01T00:00:00Z")]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("report")
    csv_log(folder / "log.csv", [*ROWS, *BROKEN])
    (folder / "names.txt").write_text("A\nB\nC\nnever\n")
    of_log = ("--max_trace_length", 5, "--first_date", "2026-01-01", "--last_date", "2026-02-01")
    for name, flags in {
        "log": ("private-log", "--epsilon", 4, "--vocabulary", folder / "names.txt", *of_log),
        "graph": ("private-dfg", "--epsilon", 2, "--vocabulary", folder / "names.txt"),
        "tree": ("process-tree", "--epsilon", 2, "--vocabulary", folder / "names.txt"),
        "syntactic": ("k-anonymous-variants", "--k", 3),
    }.items():
        released(folder, folder / "log.csv", "--release_id", name, "--method", *flags)
    return folder


def run(place: Path, name: str, *flags: object) -> int:
    keys = ("--log", place / "log.csv", "--key_store", place / "keys")
    return tracecloak("report", place / "out" / f"run_id={name}", *keys, *flags)


def report(place: Path, name: str, *flags: object) -> tuple[dict[str, Any], str]:
    """The data and the text of a page."""
    page = place / f"{name}.html"
    assert run(place, name, "--output", page, *flags) == 0
    return json.loads(data_of(page.read_bytes())), page.read_text(encoding="utf-8")


def pairs_of_log() -> Counter[tuple[str, str]]:
    found: Counter[tuple[str, str]] = Counter()
    for case in range(400):
        word = ["▶", *WORDS[case % 4], "■"]
        found.update(pairwise(word))
    return found


@pytest.mark.parametrize("name", ["log", "graph"])
def test_the_map_has_the_counts_of_both(place: Path, name: str) -> None:
    """Catches a count of the log beside the wrong path, and a path that only the log has."""
    data, _ = report(place, name, "--no_linkage")
    names = [node["name"] for node in data["map"]["nodes"]]
    shown = {(names[e["source"]], names[e["target"]]): e for e in data["map"]["edges"]}
    truth = pairs_of_log()
    assert {pair: e["original"] for pair, e in shown.items() if e["original"]} == truth
    graph = json.loads((place / "out" / f"run_id={name}" / "dfg.json").read_text())
    released = {(e["source"], e["target"]): e["count"] for e in graph["edges"]}
    assert {pair: e["count"] for pair, e in shown.items() if e["count"]} == released


def test_variants_and_times_stand_beside_those_of_the_log(place: Path) -> None:
    data, _ = report(place, "log", "--no_linkage")
    names = data["variants"]["names"]
    shown = {"".join(names[c] for c in row["codes"]): row for row in data["variants"]["rows"]}
    assert {word: shown[word]["original"] for word in set(WORDS)} == {
        "ABC": 200, "ABBC": 100, "AC": 100,
    }  # fmt: skip
    assert sum(row["original"] for row in data["times"]["spans"]) == 400
    assert sum(row["original"] for row in data["times"]["starts"]) == 400
    assert sum(row["count"] for row in data["times"]["starts"]) == data["variants"]["n_cases"]


def test_who_is_singled_out_is_shown_before_and_after(place: Path) -> None:
    data, text = report(place, "syntactic")
    assert {row["label"].split(": ")[0] for row in data["linkage"]} == {"1", "2", "3", "4"}
    assert all(0 <= row["after"] <= 1 and 0 <= row["before"] <= 1 for row in data["linkage"])
    assert "Singling out" in text
    assert "Linkability" in text
    assert "Inference" in text
    assert report(place, "graph")[0]["linkage"] is None  # no log, so nobody is looked for


def test_records_that_could_not_be_read_are_told_by_reason(place: Path) -> None:
    _, text = report(place, "graph")
    assert "1,200 of 1,202 records are used (99.8 %); lost: 2 malformed." in text
    assert "timestamp not readable as ISO 8601" in text
    assert "no activity" in text
    assert "yesterday" not in text


def test_the_ledger_has_every_charge_and_marks_that_of_the_release(place: Path) -> None:
    _, text = report(place, "graph")
    table = text.split('id="budget"')[1].split("</table>")[0]
    for name in ("log", "graph", "tree", "syntactic"):
        assert f"<td>{name}</td>" in table
    assert table.count('class="own"') == 1
    assert "<td>graph</td>" in table.split('class="own"')[1].split("</tr>")[0]


def test_the_curve_has_a_point_for_each_epsilon_and_spends_nothing(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def spent() -> str:
        assert tracecloak("ledger", "show", "--key_store", place / "keys") == 0
        return capsys.readouterr().out

    before = spent()
    data, _ = report(place, "graph", "--no_linkage", "--curve", "0.5,8")
    capsys.readouterr()
    rows = data["curve"]["rows"]
    assert [float(row["epsilon"]) for row in rows] == [0.5, 2, 8]
    assert [round(row["risk"], 3) for row in rows] == [0.155, 0.451, 0.997]
    assert sum(row["is_own"] for row in rows) == 1
    assert rows[-1]["error"] < rows[0]["error"]
    assert spent() == before
    assert report(place, "tree", "--no_linkage", "--curve", "4")[0]["curve"] is None
    wrong = ("--output", place / "x.html", "--curve", "0.5,x")
    assert run(place, "graph", "--no_linkage", *wrong) == 2


def test_what_an_attack_measured_is_shown(place: Path) -> None:
    body = {"claimed": {"epsilon": 2.0}, "accounted_epsilon": 1.9, "audited": {"epsilon": 1.2},
            "verdict": "nothing found"}  # fmt: skip
    (place / "attack.json").write_text(json.dumps(body))
    data, text = report(place, "graph", "--attack", place / "attack.json")
    assert [row["epsilon"] for row in data["attack"]] == [2.0, 1.9, 1.2]
    assert "nothing found" in text
    (place / "none.json").write_text("{}")
    with pytest.raises(ValueError, match="no report"):
        attack_of(str(place / "none.json"))
    for text in ("{}", "[" * 100_000, "9" * 10_000):
        (place / "none.json").write_text(text)
        assert run(place, "graph", "--attack", place / "none.json") == 2


def test_it_lies_with_the_keys_and_only_its_owner_reads_it(place: Path) -> None:
    before = {path for path in (place / "out").rglob("*")}
    assert run(place, "graph") == 0
    [page] = (place / "keys" / "operator").glob("graph-*/report.html")
    assert stat.S_IMODE(os.stat(page).st_mode) == 0o600
    assert "Not for publication" in page.read_text(encoding="utf-8")
    assert {path for path in (place / "out").rglob("*")} == before


def test_each_reason_has_its_own_number(place: Path) -> None:
    """Catches numbers that stand beside the reason of another finding."""
    rows = [("5.0", "A", "2026-01-01T00:00:00Z")] * 2 + [("7", "A", "2026-01-01T00:00:00Z")] * 3
    other = csv_log(place / "keys.csv", [*rows, ("7", "A", "never")])
    page = place / "keys.html"
    assert tracecloak(
        "report", place / "out" / "run_id=graph", "--log", other,
        "--key_store", place / "none", "--output", page,
    ) == 0  # fmt: skip
    text = page.read_text(encoding="utf-8").split('id="records"')[1].split("</table>")[0]
    found = re.findall(r'<td class="number">(.+?)</td><td>(.+?)[,<]', text)
    assert found == [
        ("1", "timestamp not readable as ISO 8601"), ("2", "case id written like 5.0"),
    ]  # fmt: skip


@pytest.mark.parametrize("name", ["max_cases_per_individual", "attributes"])
def test_a_curve_of_what_is_not_read_is_refused(name: str) -> None:
    guarantee = Guarantee("rigorous", "case", "add_remove", 1.0, 1e-6, "", "")
    params = {"epsilon": 1.0, name: {"case:x": {"values": ["a"]}} if name == "attributes" else 2}
    manifest = ReleaseManifest(
        "r", "private-log", 1, params, guarantee, (), (), "", "", True, False, None
    )
    with pytest.raises(UsageError, match=f"with {name}, which this report does not"):
        risk_curve(manifest, TraceBatch.from_events([]), ["1"])
