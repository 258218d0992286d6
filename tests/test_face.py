"""The public face: its names, and what a pipeline or a notebook of somebody else does with them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import tracecloak
from tests.support.releasing import csv_log, small_rows
from tracecloak.schemas.published.manifest import TOOL_VERSION

NAMES = {
    "AnonymizeEventLog",
    "Anonymizer",
    "BudgetExhausted",
    "ColumnMapping",
    "Guarantee",
    "GuaranteeError",
    "InputSchemaError",
    "KeyReference",
    "METHODS",
    "Params",
    "ReadEventLog",
    "ReleaseConfig",
    "ReleaseKey",
    "ReleaseManifest",
    "StreamConfig",
    "TracecloakError",
    "UsageError",
    "__version__",
    "anonymise",
    "group_into_traces",
    "load",
    "load_stream",
    "plan_lines",
    "run_release",
    "run_stream",
    "source_of",
}


def test_the_face_has_these_names_and_each_is_there() -> None:
    """A name that goes or comes is a decision; whoever built on it has to be told."""
    assert set(tracecloak.__all__) == NAMES
    assert all(hasattr(tracecloak, name) for name in NAMES)
    assert set(dir(tracecloak)) >= NAMES


def test_a_log_is_anonymised_in_memory_by_the_face_alone(tmp_path: Path) -> None:
    log = csv_log(tmp_path / "log.csv", list(small_rows()))
    config = tracecloak.load(
        None,
        {
            "input": str(log), "output": str(tmp_path / "out"),
            "method": "amun", "guessing_advantage": "0.2",
        },
    )  # fmt: skip
    assert any("No finite epsilon" in line for line in tracecloak.plan_lines(config))
    source = tracecloak.source_of(config)
    events = [events for file in source.files for events, _ in source.read(file)]
    made = tracecloak.anonymise(
        tracecloak.group_into_traces(events),
        tracecloak.METHODS[config.method],
        config.method_params,
        tracecloak.ReleaseKey.generate(),
        "notebook",
        config.digest,
    )
    released = {name for batch in made.traces for name in batch.case_ids.to_pylist()}
    assert released and not released & {f"case-{number}" for number in range(12)}


def test_a_wrong_parameter_is_an_error_of_the_face() -> None:
    with pytest.raises(tracecloak.UsageError, match="method must be one of"):
        tracecloak.load(None, {"method": "none"})
    assert issubclass(tracecloak.UsageError, tracecloak.TracecloakError)


def test_the_version_is_the_installed_one_everywhere() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tracecloak", "--version"],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0
    assert done.stdout == f"tracecloak {tracecloak.__version__}\n"
    assert tracecloak.__version__ == TOOL_VERSION
