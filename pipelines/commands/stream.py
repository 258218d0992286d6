"""The command `tracecloak stream`: its flags, and what it prints."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

from tracecloak.pipelines.commands.flags import help_text


def add_stream_flags(parser: argparse.ArgumentParser) -> None:
    """Adds the flags of a stream."""
    from tracecloak.pipelines.release.config import Columns
    from tracecloak.pipelines.stream.config import log_keys, stream_keys

    parser.usage = "tracecloak stream [CONFIG.yaml] [FLAG ...] [FLAG OF BEAM ...]"
    for name, text in stream_keys().items():
        kind = {"action": "append"} if name == "end_activity" else {}
        parser.add_argument(f"--{name}", help=help_text(text), **kind)  # type: ignore[arg-type]
    fields = parser.add_argument_group("fields of messages in JSON")
    for name, field in Columns.model_fields.items():
        fields.add_argument(f"--{name}", help=help_text(field.description))
    fields.add_argument(
        "--where",
        action="append",
        help="filter 'field = value' or 'field ^= prefix'; may be repeated",
    )
    group = parser.add_argument_group("parameters of product log")
    for name, text in log_keys().items():
        group.add_argument(f"--{name}", help=help_text(text))


def publish(
    config_path: str | None,
    flags: dict[str, Any],
    rest: Sequence[str],
    ours: Sequence[str],
    wants_traceback: bool,
) -> int:
    """Runs a stream until it is interrupted; returns the exit code."""
    from tracecloak.pipelines.commands.progress import showing_progress
    from tracecloak.pipelines.runners.options import refuse_unknown
    from tracecloak.pipelines.stream.config import load_stream
    from tracecloak.pipelines.stream.run import run_stream

    refuse_unknown(rest, ours)
    config = load_stream(config_path, flags)
    with showing_progress(with_runner=wants_traceback):
        outcome = run_stream(config, rest)
    print(f"{'spent' if outcome.is_spent else 'stopped'}  {outcome.folder}")
    return 0
