"""What runs a release: one interface, whether it is this process or a runner of Beam."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from tracecloak.pipelines.runners.flags import IN_MEMORY
from tracecloak.schemas.errors import UsageError

if TYPE_CHECKING:
    from tracecloak.anonymizers.contract.case_digests import CountedUnits
    from tracecloak.transforms.batch.job import Job


class Driver(Protocol):
    """Runs jobs. It can raise any error; `failures` says how much of one may be shown."""

    @property
    def is_local(self) -> bool:
        """Whether a run has ended with this process: nothing goes on elsewhere."""
        ...

    @property
    def beam_version(self) -> str | None:
        """Version of Apache Beam; None: it runs without it."""
        ...

    def check_ready(self) -> None:
        """Makes sure, before anything is paid, that a run can be started.

        Raises:
            UsageError: What it needs is not there.
        """
        ...

    def check_workplace(self, workplace: str) -> None:
        """Makes sure, before anything is drawn, that workers answer, and can write in a folder.

        Raises:
            UsageError: They cannot.
            RetryLater: They do not answer.
        """
        ...

    def units(self, job: Job) -> CountedUnits:
        """Reads the log once and returns the units of the cases of the job's window."""
        ...

    def run(self, job: Job) -> None:
        """Makes a release, from its files to its commit."""
        ...


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
