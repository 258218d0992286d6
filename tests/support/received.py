"""Releases as somebody receives them, what `verify` finds of them, and what a forger does."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.golden.releases import log_file, run_example
from tests.support.examples import examples_of
from tests.support.releasing import fix_key
from tracecloak.anonymizers.registry import METHODS
from tracecloak.pipelines.verification.verify import Verification


def made(folder: Path, method: str, number: int, **changes: Any) -> Path:
    """A release of an example of a method, the same in every run of the tests."""
    example = examples_of(METHODS[method])[number]
    with pytest.MonkeyPatch.context() as patched:
        fix_key(patched)
        assert run_example(folder, method, example, log_file(folder), **changes) == 0
    return folder / "out" / "run_id=golden"


def states(found: Verification) -> dict[str, str]:
    return {finding.check: finding.state for finding in found.findings}


def failed(found: Verification) -> dict[str, str]:
    return {f.check: f.sentence for f in found.findings if f.state == "failed"}


def copied(release: Path, folder: Path) -> Path:
    return Path(shutil.copytree(release, folder / "copy"))


def rewritten(release: Path, name: str, data: bytes) -> None:
    """Writes a file, and the manifest and the page as if it had been released so."""
    before = digest_of(release / name)
    (release / name).write_bytes(data)
    page = (release / "report.html").read_bytes()
    row = rb'[0-9.]+ [kM]?B(</td><td class="digest"><code>)' + before
    new = rb"%s\g<1>%s" % (_size(len(data)).encode(), digest_of(release / name))
    (release / "report.html").write_bytes(re.sub(row, new, page))
    edited(release, lambda body: [
        output.update(
            sha256=digest_of(release / output["path"]).decode(),
            n_bytes=(release / output["path"]).stat().st_size,
        )
        for output in body["outputs"] if output["path"] in (name, "report.html")
    ])  # fmt: skip


def _size(n_bytes: int) -> str:
    """As a page shows it."""
    if n_bytes < 1000:
        return f"{n_bytes} B"
    return f"{n_bytes / 1e3:.0f} kB" if n_bytes < 10**6 else f"{n_bytes / 1e6:.1f} MB"


def edited(release: Path, edit: Callable[[Any], object]) -> None:
    """Changes the manifest."""
    path = release / "manifest.json"
    body = json.loads(path.read_text())
    edit(body)
    path.write_text(json.dumps(body))


def digest_of(path: Path) -> bytes:
    return hashlib.sha256(path.read_bytes()).hexdigest().encode()
