"""What commands that run no pipeline take to start, as shares of importing Beam.

Each runs in a process of its own, in turn with the import, in the processor's time: what else the
machine does meanwhile does not count.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile

from tests.benchmarks.harness import ratio

ROUNDS = 7
BEAM = ["-c", "import apache_beam"]
# What the installed command does.
OURS = ["-c", "from tracecloak.pipelines.commands.main import main; raise SystemExit(main())"]
PLACES = ["--output", "nowhere", "--log"]
# The command line, the exit code, and the largest share of Beam's import.
COMMANDS = (
    (["--version"], 0, 0.1),
    (["--help"], 0, 0.1),
    (["--wrong"], 2, 0.1),
    (["ledger", "show", "--wrong"], 2, 0.1),
    (["release", "--wrong"], 2, 0.2),
    (["release", "--help"], 0, 0.3),
    (["release", "--method", "amun", "--help"], 0, 0.4),
    (["ledger", "begin"], 0, 0.5),
    (["catalogue"], 0, 0.1),
    (["catalogue", "--all"], 0, 0.7),
    (["release", *PLACES, "none.csv", "--method", "amun", "--guessing_advantage", "0.2"], 3, 0.5),
)


def seconds(arguments: list[str], code: int, folder: str) -> float:
    """Runs Python once and returns what it took of the processor, user and system."""
    # Compiled modules are kept for the rounds, as they are in an installation, whoever runs this.
    environment = {**os.environ, "TRACECLOAK_KEY_STORE": folder, "PYTHONPYCACHEPREFIX": folder}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    process = subprocess.Popen(
        [sys.executable, *arguments],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=environment,
    )
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != code:
        raise SystemExit(f"{' '.join(arguments)} ended with {process.returncode}, not {code}")
    return used.ru_utime + used.ru_stime


def main() -> None:
    """Prints the shares of the quickest runs."""
    taken: list[list[float]] = [[] for _ in (BEAM, *COMMANDS)]
    with tempfile.TemporaryDirectory() as folder:
        for number in range(ROUNDS + 1):
            lines = [
                (BEAM, 0),
                *(([*OURS, *line], code) for line, code, _ in COMMANDS),
            ]
            for found, (line, code) in zip(taken, lines, strict=True):
                took = seconds(line, code, folder)
                if number:  # the first round fills caches
                    found.append(took)
    beam, *ours = map(min, taken)  # what disturbs a run only ever adds to it
    print(f"{'import apache_beam':40s} {beam:6.2f} s of the processor")
    for (line, _, bound), took in zip(COMMANDS, ours, strict=True):
        ratio(f"tracecloak {' '.join(line)} / import apache_beam", took / beam, bound)


if __name__ == "__main__":
    main()
