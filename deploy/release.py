"""Releases a version of tracecloak: `make release VERSION=1.2.0`, with `DRY_RUN=1` to try it.

Checks that the checkout is what the version says, runs every tier of the tests, builds and checks
the distributions, and tags the commit. Pushing the tag and publishing what lies in `build/dist` is
left to whoever has looked at both.
"""

from __future__ import annotations

import argparse
import re
import subprocess
from pathlib import Path

from deploy.oldest import ROOT, distribution

# Targets of the Makefile, in this order. Not `mutants`: they judge the tests, not the version.
TIERS = ("lint", "test", "test-logs", "test-slow", "test-engines", "check-wheel")
_VERSION = re.compile(r"\d+\.\d+\.\d+(?:(?:a|b|rc)\d+)?")
_HEADING = re.compile(r"^## \[(?P<name>[^\]]+)\](?: - (?P<date>\d{4}-\d{2}-\d{2}))?$", re.MULTILINE)


def changes(changelog: str, version: str) -> str:
    """Returns what the changelog says of a version.

    Raises:
        ValueError: The version has no dated section with text, it is not the newest, or something
            is still listed as unreleased.
    """
    headings = list(_HEADING.finditer(changelog))
    ends = [*(heading.start() for heading in headings[1:]), len(changelog)]
    sections = {
        heading["name"]: (heading["date"], changelog[heading.end() : end].strip())
        for heading, end in zip(headings, ends, strict=True)
    }
    names = list(sections)
    if sections.get("Unreleased", (None, ""))[1]:
        raise ValueError(f"CHANGELOG.md: move what is under [Unreleased] to [{version}]")
    if [name for name in names if name != "Unreleased"][:1] != [version]:
        raise ValueError(f"CHANGELOG.md: the newest section must be [{version}]")
    date, text = sections[version]
    if date is None or not text:
        raise ValueError(f"CHANGELOG.md: [{version}] needs a date and what has changed")
    return text


def problems(root: Path, version: str, of_setup: str) -> list[str]:
    """Returns what speaks against releasing the checkout as a version; nothing is run.

    Args:
        root: The checkout, whose CHANGELOG.md is read.
        version: That is to be released.
        of_setup: The version that setup.py has.
    """
    found = []
    if not _VERSION.fullmatch(version):
        found.append(f"VERSION must be like 1.2.0 or 1.2.0rc1, got {version!r}")
    if of_setup != version:
        found.append(f"setup.py has version {of_setup}, not {version}")
    try:
        changes((root / "CHANGELOG.md").read_text(encoding="utf-8"), version)
    except ValueError as error:
        found.append(str(error))
    if _git(root, "status", "--porcelain"):
        found.append("the tree is not clean: commit or put away what `git status` shows")
    if _git(root, "tag", "--list", f"v{version}"):
        found.append(f"there is a tag v{version} already")
    return found


def _git(root: Path, *arguments: str) -> str:
    return subprocess.run(
        ["git", *arguments], cwd=root, check=True, capture_output=True, text=True
    ).stdout.strip()


def tag(root: Path, version: str) -> None:
    """Tags the commit; the message is what the changelog says."""
    text = changes((root / "CHANGELOG.md").read_text(encoding="utf-8"), version)
    # Headings of the changelog begin as comments of git do.
    _git(root, "tag", "--annotate", "--cleanup=verbatim", f"v{version}", "--message",
         f"tracecloak {version}\n\n{text}\n")  # fmt: skip


def main() -> None:
    """Releases, or says what speaks against it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("version")
    parser.add_argument("--dry_run", action="store_true", help="only check, and say what would run")
    flags = parser.parse_args()
    steps = [f"make {tier}" for tier in TIERS] + [f"git tag v{flags.version}"]
    found = problems(ROOT, flags.version, distribution().get_version())
    if flags.dry_run:
        print("\n".join(["would run:", *(f"  {step}" for step in steps)]))
    if found:
        raise SystemExit("\n".join(["not ready to be released:", *(f"  {one}" for one in found)]))
    if flags.dry_run:
        return
    commit = _git(ROOT, "rev-parse", "HEAD")
    for tier in TIERS:
        subprocess.run(["make", tier], cwd=ROOT, check=True)
    # Tests take a while, in which somebody may have gone on working.
    found = problems(ROOT, flags.version, distribution().get_version())
    if found or _git(ROOT, "rev-parse", "HEAD") != commit:
        raise SystemExit("the checkout changed while it was tested; nothing was tagged")
    tag(ROOT, flags.version)
    print(f"build/dist has the distributions of v{flags.version}; nothing was pushed")


if __name__ == "__main__":
    main()
