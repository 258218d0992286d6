"""`tracecloak vocabulary`: writes the names of a log's activities, for its operator to read."""

from __future__ import annotations

from tracecloak.pipelines.commands.flags import file_to_write
from tracecloak.pipelines.commands.table import Given
from tracecloak.pipelines.screen.results import Result, quantity, show
from tracecloak.schemas.errors import InputSchemaError


def run(given: Given) -> int:
    """Writes the names, one a line, below comments on the records that were left out.

    Raises:
        InputSchemaError: There is no name, as no record could be read.
    """
    from tracecloak.pipelines.configuration.config import load_log
    from tracecloak.pipelines.configuration.plan import source_of
    from tracecloak.pipelines.planning.findings import cause_of, finding_lines, refuse_unread
    from tracecloak.pipelines.planning.names import names_of, vocabulary_lines
    from tracecloak.schemas.texts import formulas
    from tracecloak.transforms.files import write_private

    flags = dict(given.flags)
    output = flags.pop("output", None)
    path = None if output is None else file_to_write("output", output)
    source = source_of(load_log(flags))
    names = names_of(source)
    tally, listed = names.tally, list(names.names)
    lost = [finding for finding in tally.found() if finding.is_lost]
    reasons = list(finding_lines(tally, source, lost))
    data = {
        "names": listed,
        "names_left_out": names.n_broken,
        "names_like_formulas": formulas(listed),
        "records": tally.n_records,
        "records_left_out": tally.n_lost,
        "reasons": reasons,
    }
    if not tally.n_events:
        # The reasons have numbers of the log, which belong beside its names and into no error.
        show(Result((), data, reasons), given.form)
        refuse_unread(tally.found(), source)
        cause = cause_of(tally, source) if lost else _NO_RECORD
        raise InputSchemaError(f"no activity can be listed, as no record can be read: {cause}")
    lines = vocabulary_lines(names)
    if path is None:
        # As comments of the list, which may be written to a file.
        comments = [f"# {line}" for line in reasons]
        show(Result((), data, [*comments, *lines]), given.form)
        return 0
    write_private(path, "\n".join([*lines, ""]).encode())
    rows = [
        ("names", f"{path} ({quantity(len(listed), 'activity', 'activities')} of the log)"),
        ("private", "until you have read them: a name can tell of a person"),
        *(("look at", line) for line in reasons),
        ("next", f"strike out what is not public, then release with --vocabulary {path}"),
    ]
    show(Result(rows, {**data, "file": str(path)}), given.form)
    return 0


_NO_RECORD = "there is none, or none passes the filters; correct --log or --where"
