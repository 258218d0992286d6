"""`tracecloak compare`: compares methods at the same true epsilon; for the operator only."""

from __future__ import annotations

from dataclasses import replace

from tracecloak.pipelines.commands.flags import file_to_write, listed
from tracecloak.pipelines.commands.table import Given
from tracecloak.pipelines.screen.results import Result, show, showing_progress


def run(given: Given) -> int:
    """Compares, and writes a page of charts, its results and its rows."""
    from tracecloak.examination.comparison import compare, report
    from tracecloak.examination.comparison.contenders import PEERS, chosen_methods
    from tracecloak.examination.comparison.original import Original, name_of
    from tracecloak.examination.comparison.rows import check_distinct
    from tracecloak.schemas.errors import UsageError
    from tracecloak.transforms.files import write_private

    flags = dict(given.flags)
    command = report.command_line(["compare"], flags)
    page = file_to_write("output", flags.pop("output"))
    if page.suffix != ".html":
        raise UsageError(f"output {page.name!r} is a page of HTML: let its name end in .html")
    summary, rows = page.with_suffix(".json"), page.with_suffix(".jsonl")
    inputs = listed(flags.pop("log"))
    methods = flags.pop("methods", None)
    peers = listed(flags.pop("peers", None) or "")
    chosen = chosen_methods(None if methods is None else listed(methods), peers)
    settings = {
        "repetitions": flags.pop("repetitions", compare.DEFAULT_REPETITIONS),
        "mined": flags.pop("mine", 0),
        "max_minutes": flags.pop("max_minutes", None),
        "epsilons": tuple(listed(flags.pop("epsilons", ",".join(compare.DEFAULT_EPSILONS)))),
        "delta": flags.pop("delta", compare.DEFAULT_DELTA),
    }
    check_distinct(log=list(map(name_of, inputs)))
    comparison = compare.Comparison((), methods=chosen, **settings)  # before logs are read
    comparison = replace(comparison, logs=tuple(Original.read(path, flags) for path in inputs))
    with showing_progress(given.form):
        made = comparison.run(rows)
        recorded = [name for name in peers if PEERS[name] is None]
        compared = report.results_of(comparison, made, command, recorded)
        texts = {summary: compared.to_text().encode(), page: report.board(compared)}
        for path, text in texts.items():
            write_private(path, text)
    shown = [
        ("page", f"{page} (not private: for the operator only)"),
        ("results", f"{summary}, what the page is made of"),
        ("rows", f"{rows}, one a release"),
    ]
    paths = {"page": str(page), "results": str(summary), "rows": str(rows)}
    show(Result(shown, paths), given.form)
    return 0
