"""`tracecloak mine`: mines a process tree of a release, at no cost to privacy."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from tracecloak.pipelines.commands.flags import file_to_write
from tracecloak.pipelines.commands.table import Given
from tracecloak.pipelines.screen.results import Result, show


def add_flags(parser: argparse.ArgumentParser, argv: Sequence[str], config: str | None) -> None:
    """Adds those of the release, the miner and the files."""
    parser.add_argument("release", metavar="RELEASE", help="folder of a release, or of releases")
    parser.add_argument("--output", required=True, help="folder to write the tree's files to")
    parser.add_argument(
        "--miner",
        help="precise (default): ours, of a log or a graph; inductive or infrequent: pm4py's, of a "
        "log",
    )


def run(given: Given) -> int:
    """Mines, and writes the tree in all its forms."""
    from tracecloak.examination.measure.mine import mine

    flags = dict(given.flags)
    folder = Path(flags.pop("output"))
    file_to_write("output", str(folder / "tree.json"))
    mined = mine(flags.pop("release"), **flags)
    mined.write(folder)
    rows = [
        ("tree", mined.tree.text),
        ("promise", mined.guarantee),
        ("files", f"{folder}/tree.json, .tree, .ptml, .pnml, .bpmn, .svg"),
        ("open first", f"{folder}/tree.svg, a picture of the tree"),
    ]
    data = {"tree": mined.tree.text, "promise": mined.guarantee, "folder": str(folder)}
    show(Result(rows, data), given.form)
    return 0
