"""`tracecloak sample`: writes a synthetic hospital log of any size."""

from __future__ import annotations

from tracecloak.pipelines.commands.table import Given
from tracecloak.pipelines.screen.results import Result, quantity, show


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
