"""The versions and hashes that images install: `make lock` writes them.

    python -m deploy.lock --extras kafka,snowflake --output my.lock

writes those for other extras. A lock serves every Python that setup.py allows, on every platform: a
version that only some need has a marker. What builds tracecloak, and libraries that have no wheels,
has a lock of its own and is installed first, so that no build downloads anything without a hash.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tomllib

from deploy.oldest import ROOT, distribution

# By lock, the extras of the image that installs it; that of what builds has none.
LOCKS: dict[str, tuple[str, ...] | None] = {
    "deploy/build.lock": None,
    "deploy/requirements.lock": ("kafka", "postgresql", "pubsub"),
    "deploy/dataflow/requirements.lock": ("gcp", "postgresql"),
}


def requirements(extras: tuple[str, ...] | None) -> list[str]:
    """Returns what tracecloak with these extras needs to run; without any, what builds it."""
    if extras is None:
        project = tomllib.loads((ROOT / "pyproject.toml").read_text())
        return list(project["build-system"]["requires"])
    setup = distribution()
    return [*setup.install_requires, *(n for extra in extras for n in setup.extras_require[extra])]


def lock(extras: tuple[str, ...] | None) -> str:
    """Returns the newest versions that fit together, each with the hashes of its files.

    Raises:
        SystemExit: There are none, or the index does not answer.
    """
    python = str(distribution().python_requires).removeprefix(">=")
    done = subprocess.run(
        [sys.executable, "-m", "uv", "pip", "compile", "-", "--quiet", "--universal",
         "--python-version", python, "--generate-hashes", "--no-annotate", "--no-header"],
        input="\n".join(requirements(extras)), capture_output=True, text=True,
    )  # fmt: skip
    if done.returncode:
        raise SystemExit(f"the versions cannot be locked:\n{done.stderr[-4000:]}")
    what = "what builds it" if extras is None else f"tracecloak[{','.join(extras)}]"
    return f"# Of {what}, for Python {python} and newer; `make lock` writes it.\n{done.stdout}"


def main() -> None:
    """Writes the locks of the images, or one for given extras."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--extras", help="of setup.py, separated by commas")
    parser.add_argument("--output", help="the file for these")
    flags = parser.parse_args()
    if bool(flags.extras) != bool(flags.output):
        parser.error("--extras and --output belong together")
    known = distribution().extras_require
    if unknown := {*(flags.extras or "").split(",")} - {"", *known}:
        parser.error(f"no extra of setup.py: {', '.join(sorted(unknown))}")
    locks = {flags.output: (*flags.extras.split(","),)} if flags.output else LOCKS
    for name, extras in locks.items():
        (ROOT / name).write_text(lock(extras), encoding="utf-8")


if __name__ == "__main__":
    main()
