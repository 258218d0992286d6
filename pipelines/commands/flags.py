"""Flags of the commands that have many; what they need is imported when they are asked for."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

_READING = ("input_format", "delimiter", "encoding", "header")


def add_release_flags(
    parser: argparse.ArgumentParser, argv: Sequence[str], config: str | None
) -> None:
    """Adds the flags of a release; which there are depends on the method that is asked for."""
    from tracecloak.anonymizers.registry import METHODS, method_named
    from tracecloak.pipelines.release.config import ReleaseConfig, read_yaml

    # The method decides which further flags there are, so it is looked for first.
    first = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    first.add_argument("--method")
    known, _ = first.parse_known_args(list(argv[1:]))
    method = known.method
    if method is None and config is not None:
        method = read_yaml(config).get("method")
    add_reading_flags(parser)
    for name, field in ReleaseConfig.model_fields.items():
        if name not in ("columns", "where", "params", *_READING):
            choices = sorted(METHODS) if name == "method" else None
            parser.add_argument(f"--{name}", help=help_text(field.description), choices=choices)
    if method is not None:
        group = parser.add_argument_group(f"parameters of {method}")
        for name, field in method_named(method).Params.model_fields.items():
            if field.annotation is bool:
                group.add_argument(
                    f"--{name}", nargs="?", const="true", help=help_text(field.description)
                )
            else:
                group.add_argument(f"--{name}", help=help_text(field.description))


def add_linkage_flags(parser: argparse.ArgumentParser) -> None:
    """Adds the flags of `attack --linkage`."""
    from tracecloak.pipelines.linkage import knowledge as linkage_knowledge
    from tracecloak.schemas.statistics.background_knowledge import UNIT_US

    parser.add_argument(
        "--linkage", action="store_true", required=True, help="attack finished releases"
    )
    parser.add_argument("--original", required=True, help="path or glob of the original log")
    parser.add_argument(
        "--released",
        required=True,
        nargs="+",
        help="folders of releases, or paths or globs of released logs, one for each release",
    )
    parser.add_argument(
        "--report", required=True, help="JSON file to write; FILE.md is written beside it"
    )
    parser.add_argument(
        "--sensitive",
        help="attributes of the case as they are released, separated by commas: case:NAME, or "
        "case:NAME=COLUMN where the original's column is called otherwise",
    )
    parser.add_argument(
        "--time_unit", choices=list(UNIT_US), help="how exactly times are known (default hours)"
    )
    parser.add_argument(
        "--sizes",
        help="how many elements are known, separated by commas, from 0 to "
        f"{linkage_knowledge.LARGEST_SIZE} (default all)",
    )
    parser.add_argument(
        "--samples",
        type=int,
        help="attacks to draw where not all are gone through; the error of a share falls with its "
        f"square root (default {linkage_knowledge.DEFAULT_SAMPLES:,})",
    )
    add_reading_flags(parser)


def add_comparison_flags(parser: argparse.ArgumentParser) -> None:
    """Adds the flags of `compare`."""
    from tracecloak.pipelines.experiments import compare

    parser.add_argument(
        "--input", required=True, help="logs, each a path or a glob; separated by commas"
    )
    parser.add_argument(
        "--output",
        required=True,
        help="Markdown page to write; rows go to .jsonl beside it, and those there are kept",
    )
    parser.add_argument("--methods", help="separated by commas; by default all that are comparable")
    epsilons = ",".join(compare.DEFAULT_EPSILONS)
    parser.add_argument("--epsilon", help=f"separated by commas (default {epsilons})")
    parser.add_argument(
        "--delta", help=f"of methods that need one (default {compare.DEFAULT_DELTA})"
    )
    parser.add_argument(
        "--repetitions",
        type=int,
        help=f"releases of each method, log and epsilon (default {compare.DEFAULT_REPETITIONS})",
    )
    parser.add_argument(
        "--mine",
        type=int,
        nargs="?",
        const=compare.DEFAULT_MINED,
        help="also mine a process from so many of them and judge it by the log, which takes "
        f"seconds each (default {compare.DEFAULT_MINED}); needs the extra mining",
    )
    add_reading_flags(parser)


def add_experiment_flags(parser: argparse.ArgumentParser, argv: Sequence[str]) -> None:
    """Adds the flags of `experiment`, with those of the one that is asked for."""
    from tracecloak.pipelines.experiments.run import DEFAULT_PATIENCE, GRIDS, REPORT_FILES

    parser.usage = "tracecloak experiment NAME LOG [LOG ...] --output FOLDER [FLAG ...]"
    parser.add_argument("name", metavar="NAME", help=f"one of {', '.join(GRIDS)}")
    parser.add_argument("logs", metavar="LOG", nargs="+", help="a path or a glob")
    parser.add_argument(
        "--output",
        required=True,
        help=f"folder to write {REPORT_FILES} to; rows that are there are not computed again",
    )
    parser.add_argument("--methods", help="separated by commas; by default all of the experiment")
    kinds = [GRIDS[name] for name in argv[1:] if name in GRIDS][:1] or list(GRIDS.values())
    counts = sorted({str(kind.repetitions) for kind in kinds})
    parser.add_argument(
        "--repetitions", type=int, help=f"releases of each cell (default {' or '.join(counts)})"
    )
    if any(kind.has_models for kind in kinds):
        parser.add_argument(
            "--mine",
            type=int,
            help="of so many of them a process is mined, which takes most of the time (default: "
            "all); needs the extra mining",
        )
        parser.add_argument(
            "--patience",
            type=float,
            help="seconds after which a mined process is given up, and said to be (default "
            f"{DEFAULT_PATIENCE:g})",
        )
    added: set[str] = set()
    for kind in kinds:
        group = parser.add_argument_group(f"of {kind.name}")
        for flag in kind.flags:
            if flag.name not in added:  # two experiments may have one of the same name
                group.add_argument(f"--{flag.name}", help=help_text(flag.meaning))
                added.add(flag.name)
    add_reading_flags(parser)


def add_reading_flags(parser: argparse.ArgumentParser) -> None:
    """Adds the flags that say how a log is read."""
    from tracecloak.pipelines.release.config import Columns, ReleaseConfig

    for name in _READING:
        parser.add_argument(
            f"--{name}", help=help_text(ReleaseConfig.model_fields[name].description)
        )
    for name, field in Columns.model_fields.items():
        parser.add_argument(f"--{name}", help=help_text(field.description))
    parser.add_argument(
        "--where",
        action="append",
        help="row filter 'column = value' or 'column ^= prefix'; may be repeated",
    )


def help_text(text: str | None) -> str:
    """Returns a description as argparse takes it."""
    return " ".join((text or "").split()).replace("%", "%%")
