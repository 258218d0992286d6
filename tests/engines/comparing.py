"""The same release in memory and on an engine, under one key."""

from __future__ import annotations

import functools
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from tests.golden.releases import example_config, log_file
from tests.support.releasing import digests, manifest, tracecloak
from tracecloak.anonymizers.registry import METHODS, method_named

N_METHODS_EXPECTED = 20  # a table that were empty would pass all


def methods() -> list[str]:
    """The names of all methods."""
    names = list(METHODS)
    assert len(names) >= N_METHODS_EXPECTED, names
    return names


def configuration(folder: Path, method: str) -> Path:
    """Writes the configuration of the first example of a method, with its log, into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    example = method_named(method).examples[0]
    path = folder / "release.yaml"
    body = example_config(folder, method, example, log_file(folder))
    path.write_text(yaml.safe_dump(body), encoding="utf-8")
    return path


def found_in(folder: Path) -> tuple[dict[str, str], list[dict[str, Any]]]:
    """What is compared of a release: digests of its files, and what its manifest says of them."""
    released = folder / "out" / "run_id=golden"
    return digests(released), manifest(released)["outputs"]


@functools.cache
def in_memory(method: str) -> tuple[int, Any]:
    """(exit code, what is compared) of the release in memory, made once a session."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        code = tracecloak("release", configuration(folder, method))
        return code, found_in(folder) if code == 0 else None


def on_engine(folder: Path, method: str, ledger: str, flags: Sequence[str]) -> tuple[int, Any]:
    """The same on an engine, with a ledger that workers elsewhere may share."""
    code = tracecloak(
        "release", configuration(folder, method), "--ledger", ledger, "--shards", 3, *flags
    )
    return code, found_in(folder) if code == 0 else None
