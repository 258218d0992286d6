"""`tracecloak vocabulary`: writes the names of a log's activities, for its operator to read."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from tracecloak.pipelines.commands.flags import add_reading_flags, file_to_write
from tracecloak.pipelines.commands.table import Given
from tracecloak.pipelines.screen.results import Result, quantity, show, tell


def add_flags(parser: argparse.ArgumentParser, argv: Sequence[str], config: str | None) -> None:
    """Adds those of reading and of the file."""
    parser.add_argument("--input", required=True, help="paths or globs of the log, by commas")
    add_reading_flags(parser)
    parser.add_argument(
        "--output", help="file to write, for nobody else to read; by default the screen"
    )


def run(given: Given) -> int:
    """Writes the names, one a line, under what must be said of them."""
    from tracecloak.pipelines.release.config import load_source
    from tracecloak.pipelines.release.names import names_of, vocabulary_file
    from tracecloak.pipelines.release.source import source_of
    from tracecloak.schemas.texts.formulas import formulas
    from tracecloak.transforms.files import keep_private

    flags = dict(given.flags)
    output = flags.pop("output", None)
    path = None if output is None else file_to_write("output", output)
    found = names_of(source_of(load_source(flags)))
    text = vocabulary_file(found.names)
    if found.n_broken:
        tell(
            f"{found.n_broken} names of activities hold a line break and cannot be in a list of "
            "one name a line; they are left out"
        )
    names, like_formulas = list(found.names), formulas(found.names)
    data = {
        "names": names,
        "names_left_out": found.n_broken,
        "names_like_formulas": like_formulas,
    }
    if path is None:
        show(Result((), data, text.split("\n")[:-1]), given.form)
        return 0
    keep_private(path)
    path.write_text(text, encoding="utf-8")
    rows = [
        ("names", f"{path} ({quantity(len(names), 'activity', 'activities')} of the log)"),
        ("private", "until you have read them: a name can tell of a person"),
        ("next", f"strike out what is not public, then release with --vocabulary {path}"),
    ]
    if like_formulas:
        told = quantity(len(like_formulas), "name begins", "names begin")
        rows.append(("formulas", f"{told} as those of a spreadsheet do: the file lists them"))
    show(Result(rows, {**data, "file": str(path)}), given.form)
    return 0
