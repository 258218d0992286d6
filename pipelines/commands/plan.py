"""`tracecloak plan`: shows what a release would read, do, spend and write."""

from __future__ import annotations

from tracecloak.pipelines.commands.table import Given
from tracecloak.pipelines.screen.results import Result, show
from tracecloak.schemas.errors import UnusableRelease


def run(given: Given) -> int:
    """Prints the plan; the exit code says whether `release` would refuse it as of no use."""
    from tracecloak.pipelines.configuration.plan import read_plan
    from tracecloak.pipelines.screen.release_text import planned

    flags = dict(given.flags)
    is_full, goal = flags.pop("full", "false") == "true", flags.pop("for", "")
    if goal and given.config is None:
        flags.setdefault("epsilon", "1")  # of which the verdict is
    plan = planned(read_plan(given.config, flags), goal=goal)
    data = {
        "plan": plan.lines,
        "verdicts": [verdict.to_json() for verdict in plan.verdicts],
        "is_refused": plan.is_refused,
        "least": None if plan.least is None else plan.least.to_json(),
    }
    rest = "`--full` shows the rest: what is read, done, promised, spent and written."
    show(Result((), data, plan.lines if is_full else [*plan.first, rest]), given.form)
    return UnusableRelease.exit_code if plan.is_refused else 0
