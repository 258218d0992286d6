"""`tracecloak experiment`: runs a paper's evaluation on logs; for the operator only."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from tracecloak.pipelines.commands.flags import (
    add_reading_flags,
    add_table_flags,
    file_to_write,
    listed,
)
from tracecloak.pipelines.commands.table import Given
from tracecloak.pipelines.screen.results import Result, quantity, show, showing_progress


def add_flags(parser: argparse.ArgumentParser, argv: Sequence[str], config: str | None) -> None:
    """Adds those of all experiments, with those of the one that is asked for."""
    from tracecloak.examination.experiments import run as experiment

    parser.usage = "tracecloak experiment NAME --log LOG --output FOLDER [FLAG ...]"
    add_table_flags(
        parser,
        __package__,
        "experiment",
        names=", ".join(experiment.PAPERS),
        files=experiment.REPORT_FILES,
        minutes=experiment.DEFAULT_MINUTES,
        repetitions=experiment.DEFAULT_REPETITIONS,
    )
    kinds = [experiment.PAPERS[name] for name in argv if name in experiment.PAPERS][:1] or list(
        experiment.PAPERS.values()
    )
    if specs := [kind.spec for kind in kinds if kind.spec["has_models"]]:
        mined = " or ".join(sorted({str(spec.get("mined", "all")) for spec in specs}))
        add_table_flags(
            parser,
            __package__,
            "experiment_with_models",
            mined=mined,
            patience=experiment.DEFAULT_PATIENCE,
        )
    added: set[str] = set()
    for kind in kinds:
        group = parser.add_argument_group(f"of {kind.name}")
        for flag in kind.spec["flags"]:
            if flag["name"] not in added:  # two experiments may have one of the same name
                default = f" (default {flag['default']})" if "default" in flag else ""
                full = f"; with --full {flag['full']}" if "full" in flag else ""
                text = f"{flag['meaning']}{default}{full}".replace("%", "%%")
                group.add_argument(f"--{flag['name']}", help=text)
                added.add(flag["name"])
    add_reading_flags(parser)


def words() -> Sequence[str]:
    """Returns the experiments."""
    from tracecloak.examination.experiments.run import PAPERS

    return tuple(PAPERS)


def run(given: Given) -> int:
    """Runs it, and writes its rows, its table and its page."""
    from tracecloak.examination.comparison.original import Original
    from tracecloak.examination.comparison.report import command_line
    from tracecloak.examination.experiments import run as experiment
    from tracecloak.examination.experiments.table import counted

    flags = dict(given.flags)
    name = flags.pop("name")
    command = command_line(["experiment", name], flags)
    inputs = listed(flags.pop("log"))
    folder = Path(flags.pop("output"))
    methods = flags.pop("methods", None)
    is_full = flags.pop("full", False)
    paper = experiment.paper_named(name, flags, is_full)
    repetitions = flags.pop("repetitions", experiment.DEFAULT_REPETITIONS)
    settings = {
        "methods": None if methods is None else listed(methods),
        "repetitions": repetitions,
        "mined": flags.pop(
            "mine", paper.spec.get("mined_in_full" if is_full else "mined") or repetitions
        ),
        "patience": flags.pop("patience", experiment.DEFAULT_PATIENCE),
        "max_minutes": flags.pop("max_minutes", None if is_full else experiment.DEFAULT_MINUTES),
    }
    experiment.require_extras(paper, settings["mined"])  # before large logs are read
    logs = tuple(Original.read(path, flags, paper.columns) for path in inputs)
    wanted = experiment.Experiment(logs, paper=paper, **settings)
    file_to_write("output", str(folder / experiment.ROWS))
    with showing_progress(given.form):
        rows = wanted.run(folder / experiment.ROWS)
        experiment.write_parquet(rows, folder / experiment.TABLE)
        stated = {log.name: list(paper.statements(wanted.table(log, rows))) for log in wanted.logs}
        page, *images = experiment.write_report(wanted, rows, stated, command, folder)
    missing = wanted.missing(rows)
    shown = [
        ("page", f"{page}, with {len(images)} charts (not private: for the operator only)"),
        ("rows", f"{folder / experiment.TABLE}, {folder / experiment.ROWS}"),
    ]
    if wanted.left_out:
        shown.insert(0, ("left out", f"{', '.join(wanted.left_out)} (not in this installation)"))
    if missing:
        shown.append(("missing", f"{quantity(missing, 'release')}: the same command goes on"))
    for log, statements in stated.items():
        if statements:
            shown.append((f"on {log}", f"of the paper's statements: {counted(statements)}"))
            shown += [(s.verdict, f"{s.text} ({s.source}): {s.found}") for s in statements]
    data = {
        "page": str(page),
        "charts": list(map(str, images)),
        "rows": str(folder / experiment.ROWS),
        "table": str(folder / experiment.TABLE),
        "left_out": list(wanted.left_out),
        "missing": missing,
        "statements": [
            {"log": log, **asdict(one)} for log, statements in stated.items() for one in statements
        ],
    }
    show(Result(shown, data), given.form)
    return 0
