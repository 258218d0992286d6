"""Running releases in tests: the command in this process, with a key of the test's own."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from anonymizers.randomness import ReleaseKey
from pipelines import cli
from pipelines.sample import hospital_log
from transforms.formats.csv import CsvWriter
from transforms.formats.jsonl import JsonLinesWriter


def fix_key(monkeypatch: pytest.MonkeyPatch, secret: bytes = b"k" * 32) -> None:
    """Makes every release reserved in this process use one key."""
    monkeypatch.setattr(ReleaseKey, "generate", classmethod(lambda cls: cls(secret)))


def tracecloak(*arguments: object) -> int:
    """Runs the command in this process and returns its exit code."""
    return cli.main([str(argument) for argument in arguments])


def hospital_files(folder: Path, n_cases: int) -> list[Path]:
    """Writes a hospital log over three files, cases cut across them, and returns their paths."""
    rows = pa.Table.from_batches(hospital_log(n_cases)).combine_chunks().to_batches()[0]
    cuts = [0, rows.num_rows // 3, rows.num_rows // 2 + 1, rows.num_rows]
    paths = [folder / "a.csv", folder / "b.jsonl", folder / "c.csv"]
    for path, first, last in zip(paths, cuts[:-1], cuts[1:], strict=True):
        with path.open("wb") as stream:
            writer = CsvWriter(stream) if path.suffix == ".csv" else JsonLinesWriter(stream)
            writer.write(rows.slice(first, last - first))
            writer.close()
    return paths


def digests(release: Path) -> dict[str, str]:
    """SHA-256 of every file of a release but the manifest, by path."""
    return {
        str(path.relative_to(release)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(release.rglob("*"))
        if path.is_file() and path.name != "manifest.json"
    }


def manifest(release: Path) -> dict[str, Any]:
    """The manifest of a release."""
    return json.loads((release / "manifest.json").read_text())


def csv_log(path: Path, rows: Sequence[tuple[str, str, str]]) -> Path:
    """Writes (case, activity, stamp) rows under the canonical header and returns the path."""
    lines = ["case_id,activity,timestamp", *(",".join(row) for row in rows)]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def small_rows(n_cases: int = 12) -> Iterator[tuple[str, str, str]]:
    """Yields the rows of a small log of three variants."""
    for case in range(n_cases):
        for step, activity in enumerate(
            ("A", "B", "C")[: 2 + (case % 3 > 0)] + ("D",) * (case % 2)
        ):
            stamp = f"2026-01-{1 + case % 28:02d}T1{step}:{case:02d}:00+00:00"
            yield f"case-{case}", activity, stamp
