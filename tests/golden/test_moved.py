"""A release is identified by names, and not by where modules lie: see moved.py."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

from tests.golden.processors import ROOT, expected_of
from tests.golden.releases import scenarios
from tracecloak.anonymizers.registry import METHODS

# What says all parameters, and so has one more.
_SAY_ALL = ("manifest.json", "report.html", "statement.md")
_FEW = (
    *(f"{name} 0" for name in METHODS),
    *("stream of variants in total", "stream of logs"),
)
_OTHERS = tuple(n for n in scenarios() if n not in _FEW and not n.startswith("sample "))


def check(names: tuple[str, ...]) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.golden.moved", *names],
        cwd=ROOT, capture_output=True, text=True, timeout=3600,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    found, expected = json.loads(done.stdout.splitlines()[-1]), expected_of(names)
    for name in names:
        assert _bytes(found[name]) == _bytes(expected[name]), name
        if "manifest.json" in expected[name] and not name.startswith("stream of"):
            assert found[name]["manifest.json"] != expected[name]["manifest.json"], "the control"


def _bytes(digests: dict[str, Any]) -> dict[str, Any]:
    return {path: of for path, of in digests.items() if path.rpartition("/")[2] not in _SAY_ALL}


@pytest.mark.slow
def test_releases_are_the_same_bytes_wherever_modules_lie_and_with_another_parameter() -> None:
    """Catches a class whose place is part of the noise, and a default that is."""
    check(_FEW)


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_all_releases_are_the_same_bytes_wherever_modules_lie() -> None:
    check(_OTHERS)
