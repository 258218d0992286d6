"""The oldest versions that setup.py allows, as constraints for pip: `python -m deploy.oldest`.

Tests that pass with them and with the newest ones say that the bounds of setup.py are true. What
only the tests and linters need is not constrained.
"""

from __future__ import annotations

import contextlib
import importlib
from pathlib import Path

import setuptools
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[1]
FILE = ROOT / "deploy" / "oldest.txt"
_HEAD = "# The lower bounds of setup.py; `make oldest` writes them.\n"


def distribution() -> setuptools.Distribution:
    """Returns what setup.py gives to setuptools: packages, files, needs; writes nothing."""
    # setuptools brings a distutils of its own, which is there only after it was imported.
    core = importlib.import_module("distutils.core")
    with contextlib.chdir(ROOT):
        found: setuptools.Distribution = core.run_setup("setup.py", stop_after="init")
    return found


def constraints() -> str:
    """Returns a line `name==version` for each dependency and for each of the extras' but dev's.

    Raises:
        ValueError: A requirement has no lower bound, or a package has two.
    """
    setup = distribution()
    needs = [
        *setup.install_requires,
        *(
            need
            for extra, needs in setup.extras_require.items()
            if extra != "dev"
            for need in needs
        ),
    ]
    lowest: dict[str, str] = {}
    for need in map(Requirement, needs):
        bounds = [bound.version for bound in need.specifier if bound.operator == ">="]
        if len(bounds) != 1:
            raise ValueError(f"setup.py must say from which version on {need.name} serves")
        if lowest.setdefault(need.name, bounds[0]) != bounds[0]:
            raise ValueError(f"setup.py has two lower bounds of {need.name}")
    return _HEAD + "".join(
        f"{name}=={version}\n"
        for name, version in sorted(lowest.items(), key=lambda i: i[0].lower())
    )


if __name__ == "__main__":
    FILE.write_text(constraints(), encoding="utf-8")
