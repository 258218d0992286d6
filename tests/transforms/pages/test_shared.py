"""Pages that share their scripts: each script lies once, is what its name says, and is compared."""

from __future__ import annotations

import hashlib
import os
import shutil
from pathlib import Path

import pytest

from tests.support.received import made
from tests.support.releasing import tracecloak
from tracecloak.schemas.errors import TracecloakError
from tracecloak.transforms.pages.page import Page, policy_of, put_shared, rendered, shared_files


def page(shares: bool = True) -> bytes:
    libraries = ("D3", "Observable Plot")
    context = {"above": "", "below": "", "figures": []}
    return rendered(Page("document.html.j2", "t", (), context, libraries=libraries, shares=shares))


def test_a_page_that_shares_names_its_libraries_by_their_digests() -> None:
    carried, shared = page(shares=False), page()
    assert len(carried) > 490_000 > 60_000 > len(shared)
    assert shared_files(carried) == [] and len(shared_files(shared)) == 2
    assert b"file:" in shared and b"file:" not in carried.split(b"</head>")[0]
    plain = Page("document.html.j2", "t", (), {}, shares=True)
    assert "file:" not in policy_of(plain)  # nothing is shared, so nothing is read


def test_what_is_shared_is_written_once_and_never_over(tmp_path: Path) -> None:
    put_shared(str(tmp_path), page())
    files = sorted((tmp_path / "_static").iterdir())
    assert [f"{hashlib.sha256(f.read_bytes()).hexdigest()}.js" for f in files] == [
        f.name for f in files
    ]
    assert sorted(shared_files(page())) == [f.name for f in files]
    for file in files:
        os.utime(file, (1, 1))
    put_shared(str(tmp_path), page())
    assert all(file.stat().st_mtime == 1 for file in files)
    files[0].write_text("alert(1)")
    with pytest.raises(TracecloakError, match="is not what its name says"):
        put_shared(str(tmp_path), page())
    assert files[0].read_text() == "alert(1)"


def test_a_release_that_shares_its_scripts_is_verified(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    release = made(tmp_path, "private-dfg", 3, page="shared")
    static = release.parent / "_static"
    assert (release / "report.html").stat().st_size < 100_000 and any(static.iterdir())
    assert tracecloak("verify", release) == 0
    assert "shows what the files hold" in capsys.readouterr().out
    shutil.rmtree(static)
    assert tracecloak("verify", release) == 0
    assert "is missing: without it the page" in capsys.readouterr().out
    static.mkdir()
    (static / shared_files((release / "report.html").read_bytes())[0]).write_text("alert(1)")
    assert tracecloak("verify", release) != 0
    assert "is not what its name says: remove it" in capsys.readouterr().out
    changed = (release / "report.html").read_bytes().replace(b"integrity", b"Integrity")
    (release / "report.html").write_bytes(changed)
    assert tracecloak("verify", release) != 0
