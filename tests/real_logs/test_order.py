"""A frame of a public log is released in the order of its rows, as a file of the same rows is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import tracecloak
from tests.support.real_logs import real_log
from tests.support.releasing import fix_key
from tests.support.releasing import tracecloak as command
from tests.support.tiers import at_night

pytestmark = pytest.mark.logs

LOGS = ["sepsis.xes.gz", at_night("purchasing_example.xes.gz"), at_night("bpic2012.xes.gz")]


@pytest.mark.parametrize("name", LOGS)
def test_a_frame_is_as_near_as_a_file_of_the_same_rows(
    logs_folder: Path, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of three keys, the median errors of the graph at epsilon 60 differ by .005 at most.

    Both have the same noise, as they have the same key and configuration.
    """
    monkeypatch.chdir(tmp_path)
    rows = real_log(logs_folder, name).to_rows().to_pandas()
    rows.to_csv("log.csv", index=False)
    names = sorted(set(rows["activity"]))
    Path("names.txt").write_text("\n".join(names))
    frame = pd.read_csv("log.csv", dtype={"case_id": str}, keep_default_na=False)
    shuffled = np.random.default_rng(0).permutation(len(frame))
    unlabelled = frame.set_index(pd.Index(shuffled))  # whose labels have no say
    errors: dict[str, list[float]] = {"file": [], "frame": []}
    for number in range(3):
        fix_key(monkeypatch, bytes([number + 1]) * 32)
        of_file, of_frame = (f"{kind}-{number}" for kind in errors)
        assert command(
            "release", "--log", "log.csv", "--method", "private-dfg", "--epsilon", 60,
            "--vocabulary", "names.txt", "--release_id", "r", "--output", of_file,
            "--key_store", of_file + "/keys", "--parts", 1, "--formats", "parquet",
        ) == 0  # fmt: skip
        tracecloak.release(
            unlabelled, method="private-dfg", epsilon=60, vocabulary=names, release_id="r",
            output=of_frame, key_store=of_frame + "/keys", new_ledger=True,
        )  # fmt: skip
        for kind, found in errors.items():
            found.append(_error(f"{kind}-{number}"))
    medians = {kind: float(np.median(found)) for kind, found in errors.items()}
    assert abs(medians["frame"] - medians["file"]) <= 0.005, errors


def _error(output: str) -> float:
    flags = ("--log", "log.csv", "--key_store", f"{output}/keys", "--output", "e.json")
    assert command("evaluate", f"{output}/run_id=r", *flags) == 0
    body: dict[str, Any] = json.loads(Path("e.json").read_text())
    return float(body["edge_relative_error"])
