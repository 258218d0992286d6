"""`tracecloak stream`: publishes what closes in a stream of events, step by step."""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Sequence

from tracecloak.pipelines.commands.flags import REPEATED, add_flag, add_lineage, checked_lineage
from tracecloak.pipelines.commands.table import Given
from tracecloak.pipelines.screen.results import Result, show

_SWITCHES = ("closed_vocabulary", "new_ledger", "publish_on_drain")


def add_flags(parser: argparse.ArgumentParser, argv: Sequence[str], config: str | None) -> None:
    """Adds those of the configuration, of the messages and of the products."""
    from tracecloak.pipelines.configuration.config import Columns
    from tracecloak.pipelines.configuration.flag_texts import key_help
    from tracecloak.pipelines.stream.config import log_helps, stream_helps

    parser.usage = "tracecloak stream [CONFIG] [FLAG ...] [FLAG OF BEAM ...]"
    for name, text in stream_helps().items():
        add_flag(parser, name, text, name in _SWITCHES)
    fields = parser.add_argument_group("fields of messages, such as payload.after.case_id")
    for name, field in Columns.model_fields.items():
        add_flag(fields, name, key_help(field), **REPEATED.get(name, {}))
    fields.add_argument(
        "--where",
        action="append",
        help="filter 'field = value', 'field ^= prefix' or 'field >= bound', as also with >, <= "
        "and <; may be repeated, as a value can have commas; by default all messages are read",
    )
    group = parser.add_argument_group("parameters of one product alone")
    for name, text in log_helps().items():
        add_flag(group, name, text)
    add_lineage(parser)


def run(given: Given) -> int:
    """Runs a stream until it is interrupted or its budget is spent."""
    from tracecloak.pipelines.stream.config import load_stream

    flags = dict(given.flags)
    lineage = checked_lineage(flags)
    config = load_stream(given.config, flags)
    from tracecloak.pipelines.screen.progress import showing_progress
    from tracecloak.pipelines.stream.run import run_stream

    with contextlib.ExitStack() as parts:
        parts.enter_context(showing_progress(given.form, with_runner=given.wants_traceback))
        if lineage is not None:
            from tracecloak.pipelines.stream.operator_side import lineage_sent

            note = parts.enter_context(lineage_sent(config, lineage))
        outcome = run_stream(config, given.of_beam)
        if lineage is not None:
            note("COMPLETE" if outcome.is_spent else "ABORT", None)
    status = "spent" if outcome.is_spent else "stopped"
    show(
        Result([(status, outcome.folder)], {"status": status, "folder": outcome.folder}), given.form
    )
    return 0
