"""What speaks against a release is found before anything runs, and the tag says what changed."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from deploy.release import TIERS, changes, problems, tag
from tracecloak.schemas.published.manifest import TOOL_VERSION

ROOT = Path(__file__).parents[2]
CHANGELOG = """# Changelog

## [Unreleased]

## [1.2.0] - 2026-12-01

### Added

* A method.

## [1.1.0] - 2026-11-01

* The first.
"""


def git(folder: Path, *arguments: str) -> str:
    return subprocess.run(
        ["git", "-c", "user.name=t", "-c", "user.email=t@localhost", *arguments],
        cwd=folder,
        check=True,
        capture_output=True,
        text=True,
    ).stdout


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    git(tmp_path, "init", "--quiet")
    git(tmp_path, "config", "user.name", "t")
    git(tmp_path, "config", "user.email", "t@localhost")
    (tmp_path / "CHANGELOG.md").write_text(CHANGELOG)
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "--quiet", "--message", "all")
    return tmp_path


def test_a_clean_checkout_is_ready_and_its_tag_has_the_changes(checkout: Path) -> None:
    assert problems(checkout, "1.2.0", "1.2.0") == []
    tag(checkout, "1.2.0")
    said = git(checkout, "tag", "--list", "--format=%(contents)", "v1.2.0")
    assert said.strip() == "tracecloak 1.2.0\n\n### Added\n\n* A method."
    (again,) = problems(checkout, "1.2.0", "1.2.0")
    assert "there is a tag v1.2.0" in again


def test_each_fault_is_named(checkout: Path) -> None:
    (found,) = problems(checkout, "1.2.0", "1.1.0")
    assert "setup.py has version 1.1.0" in found
    (checkout / "new").write_text("")
    (found,) = problems(checkout, "1.2.0", "1.2.0")
    assert "not clean" in found
    assert len(problems(checkout, "v2", "1.2.0")) == 4


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("## [Unreleased]\n", "## [Unreleased]\n\n* More.\n", "move what is under"),
        (" - 2026-12-01", "", "needs a date"),
        ("### Added\n\n* A method.\n", "", "what has changed"),
        ("1.2.0", "1.3.0", r"newest section must be \[1.2.0\]"),
    ],
)
def test_the_changelog_must_be_ready(old: str, new: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        changes(CHANGELOG.replace(old, new), "1.2.0")


def test_the_changelog_of_the_project_can_be_read() -> None:
    """What is unreleased is found, so that it cannot be forgotten in a release."""
    with pytest.raises(ValueError, match=r"Unreleased|newest section"):
        changes((ROOT / "CHANGELOG.md").read_text(), "999.0.0")


def test_every_version_has_one_dated_section_that_a_user_can_read() -> None:
    """Catches changes between states that nobody had, and a version that is not the code's."""
    text = (ROOT / "CHANGELOG.md").read_text()
    parts = re.split(r"^## (.+)$", text, flags=re.MULTILINE)[1:]
    sections = dict(zip(parts[::2], parts[1::2], strict=True))
    assert len(sections) == len(parts) // 2 and next(iter(sections)) == "[Unreleased]"
    dated = [re.fullmatch(r"\[([\d.]+)\] - (\d{4}-\d{2}-\d{2})", name) for name in sections][1:]
    assert dated and all(dated) and dated[0]
    is_between = TOOL_VERSION.endswith(".dev0")
    assert (dated[0][1] < TOOL_VERSION) if is_between else (dated[0][1] == TOOL_VERSION)
    days = [heading[2] for heading in dated if heading]
    assert days == sorted(days, reverse=True)
    for name, section in sections.items():
        assert len(section.split()) <= 900, name


def test_every_tier_is_a_target() -> None:
    targets = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert set(TIERS) <= set(targets)
