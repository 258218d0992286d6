"""What runs a release: one interface, whether it is this process or a runner of Beam."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeAlias

from tracecloak.pipelines.runners.flags import IN_MEMORY
from tracecloak.schemas.errors import UsageError

if TYPE_CHECKING:
    from tracecloak.pipelines.runners.in_memory import InMemoryDriver
    from tracecloak.pipelines.runners.on_beam import BeamDriver

    Driver: TypeAlias = InMemoryDriver | BeamDriver
    """Runs jobs. It can raise any error; `failures` says how much of one may be shown."""


def driver_of(runner: str, beam_arguments: Sequence[str]) -> Driver:
    """Returns what runs a release under the name of a runner.

    Args:
        runner: Name of a runner.
        beam_arguments: Flags of Beam.

    Raises:
        UsageError: The flags are not for this runner, or ask for what loses data.
    """
    if runner == IN_MEMORY:
        if beam_arguments:
            raise UsageError(
                f"runner {IN_MEMORY} takes no flags of Beam, got {beam_arguments[0]}; leave one of "
                "the two out"
            )
        from tracecloak.pipelines.runners.in_memory import InMemoryDriver

        return InMemoryDriver()
    from tracecloak.pipelines.runners.on_beam import BeamDriver, pipeline_options

    return BeamDriver(runner, pipeline_options(runner, beam_arguments))
