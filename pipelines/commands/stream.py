"""`tracecloak stream`: publishes what closes in a stream of events, step by step."""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Sequence
from functools import partial

from tracecloak.pipelines.commands.flags import add_field, add_table_flags
from tracecloak.pipelines.commands.table import Given
from tracecloak.pipelines.screen.results import Result, show, showing_progress

_POSITIONS = "positions"
_OF_POSITIONS = ("to_time", "by", "reason")


def add_flags(parser: argparse.ArgumentParser, argv: Sequence[str], config: str | None) -> None:
    """Adds those of the configuration, of the messages and of the products."""
    from tracecloak.pipelines.configuration.config import Columns
    from tracecloak.pipelines.stream.config import further_fields, own_fields, stream_help

    parser.usage = "tracecloak stream [positions] [CONFIG] [FLAG ...] [FLAG OF BEAM ...]"
    if argv[:1] == [_POSITIONS]:
        parser.add_argument("action", choices=[_POSITIONS])
        add_table_flags(parser, __package__, "stream_positions")
    for name, field in own_fields().items():
        add_field(parser, name, field, partial(stream_help, name, field))
    fields = parser.add_argument_group("fields of messages, such as payload.after.case_id")
    for name, field in Columns.model_fields.items():
        add_field(fields, name, field)
    add_table_flags(fields, __package__, "stream_where")
    group = parser.add_argument_group("parameters of one product alone")
    for name, field in further_fields().items():
        add_field(group, name, field, partial(stream_help, name, field))
    add_table_flags(parser, __package__, "lineage")


def run(given: Given) -> int:
    """Runs a stream until it is interrupted or its budget is spent."""
    from tracecloak.pipelines.stream.plan import load_stream, resolve

    flags = dict(given.flags)
    lineage = flags.pop("lineage", None)
    position_flags = {name: flags.pop(name, None) for name in ("action", *_OF_POSITIONS)}
    config = load_stream(given.config, flags)
    if position_flags.pop("action") is not None:
        from tracecloak.pipelines.stream.positions import positions

        is_private = given.form == "table" and sys.stdout.isatty()
        rows = positions(resolve(config), is_private, **position_flags)
        show(Result(rows, dict(rows)), given.form)
        return 0
    from tracecloak.pipelines.stream.run import run_stream

    with contextlib.ExitStack() as parts:
        parts.enter_context(showing_progress(given.form, with_runner=given.wants_traceback))
        if lineage is not None:
            from tracecloak.pipelines.stream.operator_side import lineage_sent

            note = parts.enter_context(lineage_sent(resolve(config), lineage))
        outcome = run_stream(config, given.of_beam)
        if lineage is not None:
            note("COMPLETE" if outcome.is_spent else "ABORT", None)
    status = "spent" if outcome.is_spent else "stopped"
    show(
        Result([(status, outcome.folder)], {"status": status, "folder": outcome.folder}), given.form
    )
    return 0
