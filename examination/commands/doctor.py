"""`tracecloak doctor`: looks before the night whether all is there that a run needs."""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict

from tracecloak.pipelines.commands.flags import add_table_flags
from tracecloak.pipelines.commands.table import Given
from tracecloak.schemas.errors import UsageError

_OF_STREAMS = ("input_topic", "input_subscription", "inputs")


def add_flags(parser: argparse.ArgumentParser, argv: Sequence[str], config: str | None) -> None:
    """Adds those of the configuration, which is of a release or of a stream."""
    if _is_of_stream(config):
        from tracecloak.pipelines.commands.stream import add_flags as add_flags_of_run
    else:
        from tracecloak.pipelines.commands.flags import add_release_flags as add_flags_of_run
    add_flags_of_run(parser, argv, config)
    parser.usage = "tracecloak doctor CONFIG [FLAG ...] [FLAG OF BEAM ...]"
    add_table_flags(parser, __package__, "doctor")


def run(given: Given) -> int:
    """Shows a line for each thing that was looked at; returns the exit code of the first failure.

    Raises:
        UsageError: The configuration is not there, or is none.
    """
    from tracecloak.examination.doctor.run import exit_code_of, run_checks
    from tracecloak.examination.doctor.setting import Setting
    from tracecloak.pipelines.configuration.plan import ReleasePlan, read_plan
    from tracecloak.pipelines.screen.results import Result, quantity, show

    if given.config is None:
        raise UsageError("doctor looks at a configuration file: name it first")
    flags = dict(given.flags)
    probes, n_sampled = flags.pop("probe", False), flags.pop("sample", None)
    if _is_of_stream(given.config):
        from tracecloak.pipelines.stream.config import read_stream
        from tracecloak.pipelines.stream.plan import StreamPlan, resolve

        plan: ReleasePlan | StreamPlan = resolve(read_stream(given.config, flags))
    else:
        plan = read_plan(given.config, flags).with_flags_of_beam(given.of_beam)
    is_private = given.form == "table" and sys.stdout.isatty()
    if n_sampled is not None:
        from tracecloak.examination.doctor.sources import check_sample

        check_sample(plan, n_sampled, is_private)
    setting = Setting(plan, given.of_beam, probes, is_private, n_sampled=n_sampled or 0)
    lines = list(run_checks(setting))
    code = exit_code_of(lines)
    counts = Counter(line.status for line in lines if not line.cause)
    verdict = "ready" if not counts["failure"] else "not ready"
    data = {"verdict": verdict, "exit_code": code, "lines": [asdict(line) for line in lines]}
    rows = [(f"{line.status:<7}  {line.check}", line.text) for line in lines]
    said = [quantity(counts["failure"], "failure"), quantity(counts["warning"], "warning")]
    below = ["", f"{verdict}: {', '.join(said)}, {counts['ok']:,} ok"]
    show(Result(rows, data, (), below), given.form)
    return code


def _is_of_stream(config: str | None) -> bool:
    if config is None:
        return False
    from tracecloak.pipelines.configuration.config import read_yaml

    return any(name in read_yaml(config) for name in _OF_STREAMS)
