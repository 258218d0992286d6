"""`tracecloak mine`: trees of finished releases, by our miner and by pm4py's."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.releasing import csv_log, tracecloak
from tests.support.trees import language
from tracecloak.examination.measure.mine import MINERS
from tracecloak.schemas.models.process_tree import parse_tree

VARIANTS = {("A", "B", "C", "D"): 30, ("A", "C", "B", "D"): 30, ("A", "B", "C", "E"): 25}


@pytest.fixture
def releases(tmp_path: Path) -> Path:
    cases = [variant for variant, n in VARIANTS.items() for _ in range(n)]
    log = csv_log(
        tmp_path / "log.csv",
        [
            (f"secret-{case}", activity, f"2026-01-01T1{step}:00:00+00:00")
            for case, variant in enumerate(cases)
            for step, activity in enumerate(variant)
        ],
    )
    vocabulary = tmp_path / "public.txt"
    vocabulary.write_text("A\nB\nC\nD\nE\n", encoding="utf-8")
    # So large an epsilon leaves hardly any noise: what is mined is known.
    for method in ("variant-histogram", "private-dfg"):
        names = () if method == "variant-histogram" else ("--vocabulary", vocabulary)
        assert tracecloak(
            "release", "--log", log, "--output", tmp_path / method, "--method", method,
            "--epsilon", 1000, "--release_id", "r", "--runner", "InMemory", *names,
        ) == 0  # fmt: skip
    return tmp_path


def mined(releases: Path, method: str, *flags: object) -> tuple[int, dict[str, Any]]:
    folder = releases / "tree"
    code = tracecloak("mine", releases / method, "--output", folder, *flags)
    body = json.loads((folder / "tree.json").read_text(encoding="utf-8")) if code == 0 else {}
    return code, body


@pytest.mark.parametrize("miner", MINERS)
def test_the_tree_of_a_log_fits_all_of_it(releases: Path, miner: str) -> None:
    if miner != "precise":
        pytest.importorskip("pm4py")
    code, body = mined(releases, "variant-histogram", "--miner", miner)
    assert code == 0
    assert body["mined_of"] == "log"
    words = set(language(parse_tree(body["tree"]), 4))
    assert set(VARIANTS) <= words
    assert len(words) <= 2 * len(VARIANTS)  # a flower of five has 5⁴ of this length alone


def test_the_tree_of_a_graph_is_in_every_form_and_says_what_the_release_promises(
    releases: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, body = mined(releases, "private-dfg")
    assert (code, body["mined_of"]) == (0, "graph")
    assert set(VARIANTS) <= set(language(parse_tree(body["tree"]), 4))
    manifest = json.loads(
        (releases / "private-dfg" / "run_id=r" / "manifest.json").read_text(encoding="utf-8")
    )
    promise = manifest["guarantee"]["sentence"]
    assert (body["release_id"], body["guarantee"]) == ("r", promise)
    assert promise in capsys.readouterr().out
    endings = {path.suffix for path in (releases / "tree").iterdir()}
    assert endings == {".json", ".tree", ".ptml", ".pnml", ".bpmn", ".svg"}


def test_nothing_is_spent(releases: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert tracecloak("ledger", "export") == 0
    before = capsys.readouterr().out
    assert mined(releases, "variant-histogram")[0] == 0
    capsys.readouterr()
    assert tracecloak("ledger", "export") == 0
    assert capsys.readouterr().out == before


@pytest.mark.parametrize(
    ("method", "flags", "told"),
    [
        ("private-dfg", ["--miner", "inductive"], "needs a log"),
        ("private-dfg", ["--miner", "alpha"], "must be one of precise, inductive, infrequent"),
        ("elsewhere", [], "holds neither manifest.json nor latest.json"),
    ],
)
def test_what_cannot_be_mined_is_said(
    releases: Path, capsys: pytest.CaptureFixture[str], method: str, flags: list[str], told: str
) -> None:
    assert mined(releases, method, *flags)[0] == 2
    assert told in capsys.readouterr().err
