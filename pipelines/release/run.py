"""`tracecloak release`: from a configuration to a committed release, or to nothing at all.

A release is five steps over one value, a `Run`: it is opened, claimed, run, settled and told. What
only some releases need hangs on a table beside them, see `concerns`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence

from tracecloak.pipelines.configuration.config import ReleaseConfig
from tracecloak.pipelines.release.opening import opened
from tracecloak.pipelines.release.values import Outcome, Run
from tracecloak.pipelines.runners.driver import driver_of
from tracecloak.schemas.errors import TracecloakError
from tracecloak.transforms.operator_log import operator_log


def run_release(
    config: ReleaseConfig,
    beam_arguments: Sequence[str] = (),
    confirm: Callable[[str], bool] | None = None,
) -> Outcome:
    """Makes the release that a configuration describes, unless it exists.

    Args:
        config: The configuration.
        beam_arguments: Flags of Beam.
        confirm: Asks a person a question, before anything is reserved for records most of which
            do not count; None: nobody is asked.

    Raises:
        NotConfirmed: The answer is no; nothing was reserved.
        TracecloakError: Nothing was released, for the reason that the error's class and text give;
            or, for AfterReleaseError, something was.
    """
    with told_apart():
        config = config.with_flags_of_beam(beam_arguments)
        run = opened(config, driver_of(config.runner, beam_arguments))
        if confirm is not None:
            from tracecloak.pipelines.release.usable import require_confirmation

            require_confirmation(run, confirm)
        return released(run)


@contextlib.contextmanager
def told_apart() -> Iterator[None]:
    """Makes errors that are none of ours such that hold no data, as `failures` says."""
    try:
        yield
    except TracecloakError:
        raise
    except Exception as error:  # before anything ran: a later failure has a class of its own
        from tracecloak.pipelines.runners.failures import told_error

        raise told_error(error) from error


def released(run: Run) -> Outcome:
    """Makes the release that a run was opened for, unless it exists.

    Raises:
        TracecloakError: See `run_release`.
    """
    # Once the run is opened: a wrong path is told before these are loaded.
    from tracecloak.pipelines.release.claiming import claimed, job_of
    from tracecloak.pipelines.release.telling import outcome_of, settled

    folder = run.folder
    with (
        run.books.store.alone(folder.output, folder.release_id),
        operator_log(run.dead_letter.folder),
    ):
        standing = run.books.look()
        if standing.state in ("visible", "released"):
            from tracecloak.pipelines.release.going_on import recognised

            return outcome_of(recognised(run, standing), was_released_before=True)
        run = claimed(run, standing)
        try:
            run.driver.run(job_of(run))
        except BaseException as error:
            from tracecloak.pipelines.release.failing import failed

            ended = failed(run, error)
            if ended is error:
                raise
            raise ended from error
        settled(run)
        return outcome_of(run, was_released_before=False)
