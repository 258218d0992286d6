"""`tracecloak sample`: writes a synthetic hospital log of any size."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from tracecloak.pipelines.commands.flags import add_table_flags
from tracecloak.pipelines.commands.table import Given
from tracecloak.pipelines.screen.results import Result, quantity, show


def add_flags(parser: argparse.ArgumentParser, argv: Sequence[str], config: str | None) -> None:
    """Adds the size and the files."""
    from tracecloak.transforms.formats.registry import FORMATS

    written = [form for form in FORMATS.builtins.values() if form.writer is not None]
    plain = ", ".join(form.endings[0] for form in written if not form.is_packed)
    packed = ", ".join(form.endings[0] for form in written if form.is_packed)
    add_table_flags(parser, __package__, "sample", plain=plain, packed=packed)


def run(given: Given) -> int:
    """Writes the log."""
    from tracecloak.examination.demo.hospital import write_sample, write_vocabulary

    path, vocabulary = given.flags["output"], given.flags.get("vocabulary")
    write_sample(given.flags["cases"], path, given.flags.get("patients"))
    rows = [("sample", f"{path} ({quantity(given.flags['cases'], 'made-up case')})")]
    if vocabulary is not None:
        write_vocabulary(vocabulary)
        rows.append(("vocabulary", f"{vocabulary} (its activities, which are public)"))
    data = {"sample": path, "cases": given.flags["cases"], "vocabulary": vocabulary}
    show(Result(rows, data), given.form)
    return 0
