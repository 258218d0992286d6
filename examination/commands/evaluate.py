"""`tracecloak evaluate`: compares a release with its original; for the operator only."""

from __future__ import annotations

from tracecloak.pipelines.commands.flags import file_to_write
from tracecloak.pipelines.commands.table import Given
from tracecloak.pipelines.screen.results import Result, show, showing_progress


def run(given: Given) -> int:
    """Compares, writes the report, and prints a summary."""
    from tracecloak.examination.evaluation import evaluate as evaluation
    from tracecloak.examination.evaluation.origin import opened, share_noted_in
    from tracecloak.examination.measure.registry import write_all

    flags = dict(given.flags)
    output = file_to_write("output", flags.pop("output"))
    release, original, store, url = opened(flags)
    with showing_progress(given.form):
        report = evaluation.evaluation_of(original, release, share_noted_in(store, url))
    numbers, text, page = write_all(output, report, evaluation.markdown_lines(report))
    rows = [
        ("report", f"{page}, to open in a browser; {text} has the same as text"),
        ("numbers", f"{numbers} has all of them"),
        ("not private", "they were computed on the original log: for the operator only"),
    ]
    data = {"report": str(page), "text": str(text), "numbers": str(numbers)}
    data["manifest_sha256"] = report["manifest_sha256"]
    show(Result(rows, data, above=[*evaluation.summary_lines(report), ""]), given.form)
    return 0
