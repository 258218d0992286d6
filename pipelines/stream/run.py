"""A stream on a runner of Beam: its pipeline, its job, and how the job is ended.

Beam's job server has no savepoint, and does not say what Flink calls a job; a job is found by its
name, which is that of the epoch, by Flink's REST interface.
"""

from __future__ import annotations

import json
import logging
import threading
import time
import urllib.request
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import apache_beam as beam
import pyarrow as pa
from apache_beam.options.pipeline_options import PipelineOptions, StandardOptions
from apache_beam.runners.runner import PipelineResult

from tracecloak.pipelines.ledger.ledger import Ledger
from tracecloak.pipelines.runners.failures import STAYS, redact_foreign_errors
from tracecloak.pipelines.runners.flags import FED, FLINK, LOCAL
from tracecloak.pipelines.runners.on_beam import check_ready, given_options, pipeline_options
from tracecloak.pipelines.stream.config import StreamConfig
from tracecloak.pipelines.stream.epoch import Epoch, StreamOutcome, paid_epoch
from tracecloak.pipelines.stream.local_run import (
    run_local,
    stop_on_signal,
    wait_for_answer,
    watched,
)
from tracecloak.pipelines.stream.plan import (
    StreamInput,
    StreamPlan,
    check_sources,
    resolve,
    step_sinks,
)
from tracecloak.pipelines.stream.stuck import noting
from tracecloak.schemas.errors import TracecloakError, UsageError, import_extra
from tracecloak.transforms.files import is_on_this_machine
from tracecloak.transforms.stream.beam_stages import (
    DEFAULT_SHARDS,
    EVENTS,
    REJECTS,
    AssembleCases,
    DecodeMessages,
    PublishSteps,
    ReleaseSteps,
)
from tracecloak.transforms.stream.local_stream import check_has_decided
from tracecloak.transforms.stream.read_kafka import ReadKafka
from tracecloak.transforms.stream.step_sinks import RejectSink, SendSteps, WriteRejects
from tracecloak.transforms.stream.stream_status import StreamStatus

# ---
# The job of a stream on Flink, by Flink's REST interface: stopped with a savepoint, or cancelled.


# The message services that each runner reads.
READ_BY: dict[str, tuple[str, ...]] = {
    LOCAL: ("Kafka", "Pub/Sub"),
    FLINK: ("Kafka",),
    "DataflowRunner": ("Pub/Sub",),
}
_ASK_SECONDS = 30.0
_STOP_SECONDS = 300.0
_LOOK_SECONDS = 0.5
_ACTIVE = ("CREATED", "RUNNING", "RESTARTING")


def stop_with_savepoint(address: str, name: str) -> list[str]:
    """Stops the jobs of a name; nothing that they have not decided is published.

    Args:
        address: HOST:PORT or URL of Flink's REST interface.
        name: Of the jobs.

    Returns:
        Where their state is, a path for each job.

    Raises:
        TracecloakError: Flink does not answer, or a job could not be stopped; it goes on then.
    """
    places = []
    for job in _jobs(address, name):
        begun = _ask(address, f"/jobs/{job}/stop", {"drain": False})
        path = f"/jobs/{job}/savepoints/{begun['request-id']}"
        deadline = time.monotonic() + _STOP_SECONDS
        while (answer := _ask(address, path))["status"]["id"] != "COMPLETED" and (
            time.monotonic() <= deadline
        ):
            time.sleep(_LOOK_SECONDS)
        place = answer.get("operation", {}).get("location")
        if place is None:
            raise TracecloakError(
                f"Flink has not stopped job {job} with a savepoint, and the job may go on: look at "
                "it in Flink, and name a folder for savepoints with state.savepoints.dir"
            )
        places.append(str(place))
    return places


def cancel(address: str, name: str) -> None:
    """Ends the jobs of a name, whose stream is over.

    Raises:
        TracecloakError: Flink does not answer.
    """
    for job in _jobs(address, name):
        _ask(address, f"/jobs/{job}?mode=cancel", method="PATCH")


def _jobs(address: str, name: str) -> list[str]:
    jobs = _ask(address, "/jobs/overview")["jobs"]
    return [job["jid"] for job in jobs if job["name"] == name and job["state"] in _ACTIVE]


def _ask(
    address: str, path: str, body: dict[str, Any] | None = None, method: str | None = None
) -> Any:
    url = (address if "://" in address else f"http://{address}").rstrip("/") + path
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"Content-Type": "application/json"}, method=method)
    try:
        with urllib.request.urlopen(request, timeout=_ASK_SECONDS) as answer:
            return json.loads(answer.read() or b"null")
    except (OSError, ValueError) as error:
        raise TracecloakError(
            f"flink_master {address!r} does not answer as Flink's REST interface does: "
            f"{type(error).__name__}; the job goes on. Stop it in Flink with a savepoint"
        ) from None


# --- `tracecloak stream`: from a configuration to a stream that publishes a release every step. ---


_LOG = logging.getLogger("tracecloak")

# What gives the messages of a stream, or of each of its inputs.
Source: TypeAlias = beam.PTransform | beam.PCollection | Sequence[beam.PTransform]

# Checkpoints come between bundles, as a stream was seen to stand still when one came in the middle
# of the first bundle. Operators are not chained: if they were, their names in a savepoint would
# depend on the parallelism, and the stream could not go on with another one. A Flink option that is
# on by default is for Beam a flag that turns it off.
OF_FLINK = ("--finish_bundle_before_checkpointing", "--operator_chaining")
# The last checkpoint stays when a job fails or is cancelled: a stream goes on only from its state.
_STAYS = ("--externalized_checkpoints_enabled", "--retain_externalized_checkpoints_on_cancellation")
# A job ends by itself this long after its last step, if its source has ended by then. Beam keeps
# sources that are over for so long, counted from each start of the job.
_IDLE_MILLIS = 60_000
_OF_STATE = ". If no step came, give savepoint_path to the version and configuration that left it"


def run_stream(
    config: StreamConfig,
    beam_arguments: Sequence[str] = (),
    messages: Source | None = None,
    sinks: Sequence[beam.PTransform] = (),
) -> StreamOutcome:
    """Pays for a stream and runs it until it is interrupted, or its source ends.

    Args:
        config: What is published, of what.
        beam_arguments: Flags of Beam.
        messages: What gives the messages (`transforms.formats.messages.Message`, each with the
            time of its publishing for its element time) in place of the configured source, or of
            each of several. Where the runner is Local, Beam's own on this machine runs the stream
            then, without its state on disk: that is for tests, and for pipelines of others on their
            runner.
        sinks: What takes the releases beside the files and the configured topic; Beam's as well.

    Raises:
        TracecloakError: It could not begin, or it failed, for the reason that the error gives.
    """
    runner = LOCAL if config.runner == "DirectRunner" else config.runner
    if runner == LOCAL and messages is None:
        if beam_arguments or sinks:
            given = beam_arguments[0] if beam_arguments else "sinks"
            raise UsageError(f"runner {LOCAL} takes nothing of Beam, got {given}")
        return run_local(resolve(config).with_keys(runner=LOCAL))
    if runner == FED and messages is None:
        raise UsageError(
            f"runner {FED} forgets everything when it ends: it is for messages that the caller "
            f"gives. Use {LOCAL}, which reads the same and keeps its state on disk"
        )
    plan = resolve(config).with_keys(runner=FED if runner == LOCAL else runner)
    keys = plan.keys
    options = stream_options(keys.runner, [*_job_flags(plan, beam_arguments), *beam_arguments])
    if messages is None:
        require_reads(plan)
    standing = StreamStatus()
    with watched(plan, standing, threading.Event()) as following:
        is_new = messages is None and not plan.is_begun
        if messages is None:
            require_update(keys, options, is_new)
        with stop_on_signal() as stop:
            connected = wait_for_answer(
                lambda: (messages or source_of(plan, is_new), step_sinks(keys)), stop, standing
            )
        if connected is None:
            return StreamOutcome(plan.folder, False)
        source, own = connected
        check_ready(options)
        with paid_epoch(plan) as epoch:
            pipeline = beam.Pipeline(options=options)
            others = [beam.ParDo(SendSteps(sink)) for sink in own]
            build_stream(pipeline, source, epoch, [*sinks, *others])
            is_ended, remedy = threading.Event(), _OF_STATE if is_restored(options) else ""
            with (
                redact_foreign_errors(STAYS + remedy),
                noting(epoch, is_ended, standing),
                following(epoch),
            ):
                is_left = _run(pipeline, plan.name.both, is_ended)
                if is_left and epoch.is_spent and not is_ended.is_set():
                    epoch.send_last()
    return StreamOutcome(plan.folder, epoch.is_spent)


def build_stream(
    pipeline: beam.Pipeline,
    source: Source,
    epoch: Epoch,
    sinks: Sequence[beam.PTransform] = (),
) -> beam.PCollection:
    """Adds all of a stream to a pipeline; returns the releases, each after its files are there.

    All decided steps are known to be kept then, and those that are kept are noted.

    Args:
        pipeline: The pipeline.
        source: What gives the messages, or they themselves; in the global window, each with the
            time of its publishing for its element time. A list has one for each of the inputs.
        epoch: What is published, and where it is written.
        sinks: What takes the releases once they are written.

    Raises:
        TracecloakError: See `check_kept`.
    """
    check_kept(epoch)
    epoch.note_kept()
    warn_without_state(pipeline.options, epoch)
    plan, config, rule = epoch.plan, epoch.plan.keys, epoch.plan.rule
    noise, identities = epoch.keys
    decoded = _decoded(pipeline, source, epoch)
    n_shards = config.shards or (1 if config.runner == FED else DEFAULT_SHARDS)
    assemble = AssembleCases(rule, identities, config.horizon, n_shards)
    closed = decoded[EVENTS] | "AssembleCases" >> assemble
    begun = pipeline | "Begin" >> beam.Create([None])
    release = ReleaseSteps(
        plan.product,
        rule,
        plan.name,
        noise,
        epoch.steps,
        config.publish_on_drain,
        # Workers that cannot read the key store find no ledger by it; see `noting`.
        epoch.noted.send if config.worker_keys is None else None,
    )
    written = closed | "PublishSteps" >> PublishSteps(release, begun)
    for step, sink in zip(("WriteSteps", "Table"), epoch.sinks, strict=False):
        written = written | step >> beam.ParDo(SendSteps(sink))
    for i, sink in enumerate(sinks):
        _ = written | f"Sink{i}" >> sink
    rejected = RejectSink(epoch.rejected, config.kafka("reject_topic") or config.reject_topic)
    one_key = beam.Map(lambda batch: (0, batch)).with_output_types(tuple[int, pa.RecordBatch])
    write = beam.ParDo(WriteRejects(rejected))
    _ = decoded[REJECTS] | "OneKey" >> one_key | "WriteRejects" >> write
    return written


def _decoded(
    pipeline: beam.Pipeline, source: Source, epoch: Epoch
) -> Mapping[str, beam.PCollection]:
    """Returns the events and the rejects of all inputs, by the tags of `DecodeMessages`."""
    sources: Sequence[Any] = source if isinstance(source, Sequence) else [source]
    for one in sources:
        if isinstance(one, ReadKafka):
            one.logs = epoch.logs
    # The names of the first input are those of a stream that has one: savepoints have them.
    marks = ["", *map(str, range(1, len(sources)))]
    read = [
        (one if isinstance(one, beam.PCollection) else pipeline | f"Messages{mark}" >> one)
        | f"DecodeMessages{mark}" >> DecodeMessages(of.layout)
        for one, of, mark in zip(sources, epoch.plan.inputs, marks, strict=True)
    ]
    if len(read) == 1:
        return read[0]
    return {
        tag: [one[tag] for one in read] | f"All{tag.title()}" >> beam.Flatten()
        for tag in (EVENTS, REJECTS)
    }


def source_of(plan: StreamPlan, is_new: bool = False) -> list[beam.PTransform]:
    """Returns the transforms that read the configured subscriptions or topics.

    Args:
        plan: What is published, of what.
        is_new: Whether its epoch has not begun, so that no message of it may be deleted.

    Raises:
        UsageError: Its name is wrong, it is not there, or a library that reads it is not installed;
            or see `check_sources`.
        RetryLater: See `check_sources`.
    """
    check_sources(plan, is_new)
    return [_one_source_of(plan, one) for one in plan.inputs]


def _one_source_of(plan: StreamPlan, one: StreamInput) -> beam.PTransform:
    """See `source_of`."""
    keys = one.keys
    if one.topic is not None:
        end_us = plan.rule.release_time(keys.horizon - 1)
        return ReadKafka(one.topic, plan.consumer_group, keys.clock_topic, keys.start, end_us)
    # Dataflow's extra has the library too.
    import_extra("google.cloud.pubsub_v1", "Pub/Sub", "google-cloud-pubsub", "gcp")
    try:
        # Without a timestamp attribute: elements have the time of their publishing.
        return beam.io.ReadFromPubSub(
            topic=keys.input_topic,
            subscription=keys.input_subscription,
            with_attributes=True,
        )
    except ValueError as error:
        raise UsageError(f"input_subscription or input_topic: {error}") from None


def require_reads(plan: StreamPlan) -> None:
    """Makes sure that the runner reads what is configured.

    Raises:
        UsageError: It does not.
    """
    service = "Pub/Sub" if plan.inputs[0].topic is None else "Kafka"
    runners = [name for name, read in READ_BY.items() if service in read]
    if (runner := plan.keys.runner) not in runners:
        raise UsageError(f"runner {runner} reads no {service}: use {' or '.join(runners)}")


def stream_options(runner: str, arguments: Sequence[str]) -> PipelineOptions:
    """Returns Beam's options for a stream.

    Raises:
        UsageError: The runner runs no streams, or it would keep no state.
    """
    runner_keys = OF_FLINK if runner == FLINK else ()
    options = pipeline_options(runner, [*arguments, *runner_keys], must_end=False)
    set_streaming(runner, options)
    return options


def set_streaming(runner: str, options: PipelineOptions) -> None:
    """Has a pipeline run as a stream.

    Raises:
        UsageError: The runner runs no streams, or it would keep no state.
    """
    if runner not in (*READ_BY, FED):
        known = " or ".join(READ_BY)
        raise UsageError(f"runner must be {known}: no other runs a stream, got {runner!r}")
    interval = getattr(given_options(options), "checkpointing_interval", "")
    if runner == FLINK and not str(interval).isdecimal():
        raise UsageError(
            "runner FlinkRunner keeps no state without checkpoints: give their distance, such as "
            "`--checkpointing_interval 60000`, and name a folder in Flink's configuration"
        )
    options.view_as(StandardOptions).streaming = True


def is_restored(options: PipelineOptions) -> bool:
    """Returns whether a stream begins with the state of a savepoint or checkpoint of Flink."""
    return hasattr(given_options(options), "savepoint_path")


def require_update(config: StreamConfig, options: PipelineOptions, is_new: bool) -> None:
    """Makes sure that a job of Dataflow has the state of its epoch, before anything is charged.

    Args:
        config: What is published, of what.
        options: Beam's.
        is_new: Whether this key store has not begun the epoch.

    Raises:
        UsageError: It would not have it.
    """
    is_update = bool(given_options(options).update)
    if config.runner != "DataflowRunner" or is_update != is_new:
        return
    epoch = f"epoch {config.epoch!r} of {config.release_id!r}"
    if is_update:
        raise UsageError(
            f"--update continues a job, and {epoch} was not begun with this key store: name the "
            "key_store that began it, or leave out --update to begin the epoch, which is charged"
        )
    raise UsageError(
        f"{epoch} was begun before, and another job would lack its state. Give --update with the "
        "--job_name of the job that runs, or begin another epoch, which is another spend"
    )


def warn_without_state(options: PipelineOptions, epoch: Epoch) -> None:
    """Warns of an epoch that goes on without the state of its cases."""
    if epoch.plan.keys.runner == FLINK and not is_restored(options):
        if epoch.steps.last() >= 0:
            _LOG.warning(
                "steps are published, and the stream begins without their state: stop it, and give "
                "its last checkpoint or savepoint with --savepoint_path"
            )


def check_kept(epoch: Epoch, ledger: Ledger | None = None) -> None:
    """Makes sure that all decided steps are kept, so that none is drawn a second time.

    Args:
        epoch: What is published, and where.
        ledger: See `Epoch.last_decided`.

    Raises:
        UsageError: The state of the epoch is on this machine.
        TracecloakError: A step was decided, and what it released is not kept.
    """
    if is_on_this_machine(epoch.private) and epoch.state_path.exists():
        raise UsageError(
            f"this epoch has its state in {epoch.state_path}, which runner {LOCAL} goes on with: "
            "name that runner, or begin another epoch, which is another spend"
        )
    next_step = epoch.steps.last() + 1
    check_has_decided(epoch.steps.folder, epoch.last_decided(ledger), next_step or None)


def _job_flags(plan: StreamPlan, given: Sequence[str]) -> list[str]:
    """Returns flags by which a job of Flink is found, and by which it ends once its source has."""
    if plan.keys.runner != FLINK:
        return []
    end_us = plan.rule.release_time(plan.keys.horizon - 1)
    left_millis = end_us // 1_000 - int(1e3 * time.time())
    flags = {
        "--job_name": plan.name.both,
        "--shutdown_sources_after_idle_ms": max(0, left_millis) + _IDLE_MILLIS,
    }
    names = {flag.partition("=")[0] for flag in given}
    own = [*_STAYS, *(f"{name}={value}" for name, value in flags.items())]
    return [flag for flag in own if flag.partition("=")[0] not in names]


def _run(pipeline: beam.Pipeline, name: str, is_ended: threading.Event) -> bool:
    """Runs a pipeline until its job ends, the epoch is ended, or this process is to stop.

    Returns:
        Whether the job was left before it ended by itself.
    """
    result = pipeline.run()
    failures: list[Exception] = []

    def wait() -> None:
        try:
            result.wait_until_finish()
        except Exception as error:
            failures.append(error)

    job = threading.Thread(target=wait, daemon=True)
    job.start()
    with stop_on_signal("stopping") as stop:
        while job.is_alive() and not (stop.is_set() or is_ended.is_set()):
            job.join(_LOOK_SECONDS)
        if is_left := job.is_alive():
            _leave(pipeline.options, result, name, is_ended.is_set())
        elif failures:
            raise failures[0]
    return is_left


def _leave(options: PipelineOptions, result: PipelineResult, name: str, is_over: bool) -> None:
    """Ends a job that goes on, so that it can be begun again where it was unless it is over."""
    given = given_options(options)
    address, name = str(given.flink_master), given.job_name or name
    if is_over and not address.startswith("["):
        cancel(address, name)
    elif not address.startswith("["):
        for place in stop_with_savepoint(address, name):
            _LOG.warning(
                "stopped, with the state in %s: the same command with --savepoint_path=%s goes on "
                "from there, and spends nothing twice",
                place,
                place,
            )
    elif is_over or given.environment_type == "LOOPBACK":
        result.cancel()  # its workers end with this process
        _LOG.warning("stopped; what was published stays published, and what was paid stays spent")
    else:
        _LOG.warning(
            "the job goes on without this command. Stop it with a savepoint, which this command "
            "does with --flink_master, and start again with --savepoint_path"
        )
