"""What commands that run no pipeline take to start, as shares of importing Beam.

Each runs in a process of its own, in turn with the import, in the processor's time: what else the
machine does meanwhile does not count.
"""

from __future__ import annotations

from tests.benchmarks.harness import Work, in_turn, ratio

# What the installed command does.
OURS = ("-c", "from tracecloak.pipelines.commands.main import main; raise SystemExit(main())")
PLACES = ("--output", "nowhere", "--log")
# The command line, the exit code, and the largest share of Beam's import.
COMMANDS = (
    (("--version",), 0, 0.1),
    (("--help",), 0, 0.1),
    (("--wrong",), 2, 0.1),
    (("ledger", "show", "--wrong"), 2, 0.1),
    (("release", "--wrong"), 2, 0.2),
    (("release", "--help"), 0, 0.3),
    (("release", "--method", "amun", "--help"), 0, 0.4),
    (("ledger", "begin"), 0, 0.5),
    (("catalogue",), 0, 0.1),
    (("catalogue", "--all"), 0, 0.7),
    (("release", *PLACES, "none.csv", "--method", "amun", "--guessing_advantage", "0.2"), 3, 0.5),
)


def main() -> None:
    """Prints the shares of the quickest runs."""
    works = [Work("import apache_beam", ("-c", "import apache_beam"))]
    for line, code, _ in COMMANDS:
        given = ("--key_store", "{fresh}/keys") if line[:2] == ("ledger", "begin") else ()
        works.append(Work(f"tracecloak {' '.join(line)}", (*OURS, *line, *given), exit_code=code))
    beam, *ours = in_turn(works, rounds=7).values()
    for (_, _, bound), runs in zip(COMMANDS, ours, strict=True):
        # What disturbs a run only ever adds to it.
        least, of_beam = (min(one.seconds for one in of.rounds) for of in (runs, beam))
        ratio(f"{runs.work.name} / import apache_beam", least / of_beam, bound)


if __name__ == "__main__":
    main()
