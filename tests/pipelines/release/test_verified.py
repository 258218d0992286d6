"""What a syntactic method promises is checked on the files: a faulty method releases nothing."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.releasing import hospital_files, placed, tracecloak
from tests.support.tiers import at_night
from tracecloak.anonymizers.tlkc.k_anonymous_variants import KAnonymousVariants
from tracecloak.schemas.errors import GuaranteeError
from tracecloak.schemas.events.traces import TraceBatch

RUNNERS = pytest.mark.parametrize("runner", ["InMemory", at_night("FnApiRunner")])


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("inputs")
    return ",".join(str(path) for path in hospital_files(folder, 200))


def release(folder: Path, inputs: str, runner: str, formats: str = "parquet") -> int:
    flags = ("--method", "k-anonymous-variants", "--k", 3, "--runner", runner)
    return tracecloak(*placed(folder, inputs, *flags, "--formats", formats, "--parts", 3))


def careless(apply: Callable[..., TraceBatch]) -> Callable[..., TraceBatch]:
    """An `apply` that takes no variant for rare, and so releases all of them."""

    def faulty(self: Any, traces: TraceBatch, decisions: Any, *others: Any) -> TraceBatch:
        found = decisions["suppression"]
        nothing = replace(
            found, rows=found.rows.slice(0, 0), offsets=np.zeros(1, np.int64), kept=found.kept[:0]
        )
        return apply(self, traces, {"suppression": nothing}, *others)

    return faulty


@RUNNERS
def test_a_log_that_breaks_the_promise_is_not_committed(
    tmp_path: Path,
    inputs: str,
    runner: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(KAnonymousVariants, "apply", careless(KAnonymousVariants.apply))
    assert release(tmp_path, inputs, runner) == GuaranteeError.exit_code
    assert "breaks the promise of k-anonymous-variants" in capsys.readouterr().err
    assert not (tmp_path / "out" / "run_id=r").exists()
    assert not (tmp_path / "out" / "latest.json").exists()
    monkeypatch.undo()
    assert release(tmp_path, inputs, runner) == 0  # the same id is free again


@RUNNERS
def test_who_was_refused_is_not_told_to_run_the_same_command_again(
    tmp_path: Path, runner: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Under the key that is kept the method refuses the same log for the same reason."""
    log = tmp_path / "log.csv"
    log.write_text(
        "case_id,activity,timestamp\na,A,2024-01-01T00:00:00Z\nb,B,2024-01-01T00:00:00Z\n"
    )
    for _ in range(2):
        caplog.clear()
        assert release(tmp_path, str(log), runner) == GuaranteeError.exit_code
        assert "stays spent: give it up" in caplog.text
        assert "run the same command again" not in caplog.text
    given_up = tracecloak(
        "ledger", "forfeit", "--key_store", tmp_path / "keys", "--output", tmp_path / "out",
        "--release_id", "r", "--by", "me", "--reason", "no case is left",
    )  # fmt: skip
    assert given_up == 0


@pytest.mark.parametrize(
    ("runner", "formats"),
    [
        ("InMemory", "csv"), at_night("InMemory", "parquet"), at_night("FnApiRunner", "csv"),
        at_night("FnApiRunner", "parquet"),
    ],
)  # fmt: skip
def test_the_manifest_says_that_the_files_were_verified(
    tmp_path: Path, inputs: str, runner: str, formats: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All cases are looked at, also where the parts are not among the released files."""
    seen = []

    def noting(self: Any, released: Any, params: Any) -> None:
        seen.append(sum(batch.n_events for batch in released))

    monkeypatch.setattr(KAnonymousVariants, "verify", noting)
    assert release(tmp_path, inputs, runner, formats) == 0
    folder = tmp_path / "out" / "run_id=r"
    graph = json.loads((folder / "dfg.json").read_text())
    n_events = sum(edge["count"] for edge in graph["edges"] if edge["target"] != "■")
    assert seen == [n_events] and n_events > 0
    assert json.loads((folder / "manifest.json").read_text())["verified"] is True
