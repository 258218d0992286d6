"""What is said of a failed pipeline: class and stage of the innermost cause, nothing of data."""

from __future__ import annotations

from collections.abc import Callable

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pytest
from apache_beam.options.pipeline_options import PipelineOptions

from tests.support.tiers import at_night
from tracecloak.pipelines.runners import failures
from tracecloak.schemas.errors import (
    ForeignError,
    GuaranteeError,
    RetryLater,
    TracecloakError,
    UsageError,
)

SECRET = "patient-4711"
IN_PROCESSES = ["--direct_running_mode=multi_processing", "--direct_num_workers=2"]


class OfSomebody(Exception):  # noqa: N818 - its arguments are what matters
    """Cannot be made of a text, so runners make a RuntimeError of it."""

    def __init__(self, first: str, second: int) -> None:
        super().__init__(f"{first} {second}")


def fail(how: str) -> None:
    if how == "plain":
        raise ValueError(f"{SECRET}\nKeyError: {SECRET}")
    if how == "of somebody":
        raise OfSomebody(SECRET, 1)
    if how == "file":
        raise FileNotFoundError(2, SECRET, f"/{SECRET}")
    if how == "from":
        try:
            {}[SECRET]
        except KeyError as error:
            raise ValueError(SECRET) from error
    if how == "while handling":
        try:
            {}[SECRET]
        except KeyError:
            raise ValueError(SECRET)  # noqa: B904 - as it is often written
    raise GuaranteeError("the log has no events")


def failed(how: str, *options: str) -> Exception:
    with pytest.raises(Exception) as raised:
        with beam.Pipeline(options=PipelineOptions([*options])) as pipeline:
            _ = pipeline | beam.Create([how]) | beam.Reshuffle() | "Some/Stage" >> beam.Map(fail)
    return raised.value


@pytest.mark.parametrize("runner", ["FnApiRunner", "BundleBasedDirectRunner"])
@pytest.mark.parametrize(
    ("how", "told"),
    [
        ("plain", "ValueError"),
        ("of somebody", "OfSomebody"),
        ("file", "FileNotFoundError (No such file or directory)"),
        ("from", "KeyError"),
        ("while handling", "ValueError"),
    ],
)
def test_class_and_stage_of_the_innermost_cause_are_told(how: str, told: str, runner: str) -> None:
    error = failed(how, f"--runner={runner}")
    assert failures.reason_of(error) == f"{told} in stage 'Some/Stage'"
    assert failures.own_error(error) is None
    with pytest.raises(ForeignError) as raised, failures.redact_foreign_errors(failures.STAYS):
        raise error
    assert (
        str(raised.value)
        == f"the pipeline failed with {failures.reason_of(error)}; {failures.STAYS}"
    )


@pytest.mark.parametrize(
    ("how", "told"), [at_night("plain", "ValueError"), at_night("from", "KeyError")]
)
def test_so_they_are_of_a_worker_in_another_process(how: str, told: str) -> None:
    """Which hands back a text."""
    error = failed(how, "--runner=FnApiRunner", *IN_PROCESSES)
    assert type(error) is RuntimeError and SECRET in str(error)
    assert failures.reason_of(error) == f"{told} in stage 'Some/Stage'"


@pytest.mark.parametrize("options", [[], at_night(IN_PROCESSES)])
def test_an_error_of_ours_is_found_with_its_text(options: list[str]) -> None:
    found = failures.own_error(failed("ours", "--runner=FnApiRunner", *options))
    assert isinstance(found, GuaranteeError) and str(found) == "the log has no events"
    assert failures.reason_of(found) == "the log has no events"


def both(first: TracecloakError, second: TracecloakError) -> Exception:
    """A second error while the first one is handled, such as when a source is closed."""
    with pytest.raises(TracecloakError) as raised:
        try:
            raise first
        finally:
            raise second
    wrapped = RuntimeError("the runner's")
    wrapped.__cause__ = raised.value
    return wrapped


def in_a_text(*errors: TracecloakError) -> Exception:
    """What workers in other processes hand back of several."""
    lines = [f"tracecloak.schemas.errors.{type(error).__name__}: {error}\n" for error in errors]
    return RuntimeError("Traceback (most recent call last):\n".join(["", *lines]))


@pytest.mark.parametrize("joined", [both, in_a_text])
def test_what_a_person_must_act_on_comes_before_another_try(
    joined: Callable[[TracecloakError, TracecloakError], Exception],
) -> None:
    """Catches an exit code 75 with which a scheduler tries for ever."""
    for several in (
        joined(RetryLater("away"), GuaranteeError("the log has no events")),
        joined(GuaranteeError("the log has no events"), RetryLater("away")),
    ):
        found = failures.own_error(several)
        assert (type(found), str(found)) == (GuaranteeError, "the log has no events")
    assert isinstance(failures.own_error(joined(RetryLater("away"), RetryLater("too"))), RetryLater)


def test_an_error_that_was_made_of_another_of_ours_stands_for_it() -> None:
    with pytest.raises(RetryLater) as raised:
        try:
            raise UsageError("no topic")
        except UsageError:
            raise RetryLater("the topic is being made") from None
    assert str(failures.own_error(raised.value)) == "the topic is being made"


def test_a_word_before_a_colon_is_no_class() -> None:
    told = failures.reason_of(
        RuntimeError(f"{SECRET}: x\n{SECRET}Error: y\nos.path: z\nValueError: {SECRET}")
    )
    assert told == "ValueError"
    assert failures.reason_of(RuntimeError(f"{SECRET}: x")) == "RuntimeError"


def test_too_little_memory_is_told_from_other_failures_whatever_it_was_wrapped_in() -> None:
    """Those of numpy and of Arrow are MemoryErrors, too."""
    with pytest.raises(MemoryError) as raised:
        np.empty(1 << 60, np.int8)
    wrapped = RuntimeError(SECRET)
    wrapped.__cause__ = raised.value
    lacking = {wrapped: True, pa.ArrowMemoryError(): True, RuntimeError("MemoryError"): False}
    for error, lacks in lacking.items():
        told = str(failures.unwrap_error(error))
        assert ("needs more memory than there is" in told) == lacks
