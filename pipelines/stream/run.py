"""`tracecloak stream`: from a configuration to a stream that publishes a release every step.

What the whole horizon costs is taken from the ledger before a message is read, and never given
back: what a stream has published cannot be known of one that was cut off. The key of the epoch
stays in the key store until the last step is published.
"""

from __future__ import annotations

import datetime
import importlib
import json
import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import cast

import apache_beam as beam
from apache_beam.io.filesystems import FileSystems
from apache_beam.options.pipeline_options import PipelineOptions, StandardOptions

from tracecloak.anonymizers.accounting.composition import total
from tracecloak.anonymizers.streams.steps import StepProduct
from tracecloak.pipelines.budget.books import check_worker_keys, open_ledger, open_store
from tracecloak.pipelines.budget.key_store import KeyStore
from tracecloak.pipelines.budget.ledger import Ledger, Reservation
from tracecloak.pipelines.release.config import without_filters
from tracecloak.pipelines.runners.failures import own_error, reason_of
from tracecloak.pipelines.runners.local_streaming import mend_local_streaming
from tracecloak.pipelines.runners.names import is_durable, is_local
from tracecloak.pipelines.runners.options import check_ready, pipeline_options, version
from tracecloak.pipelines.stream.config import STREAMING_RUNNER, StreamConfig
from tracecloak.schemas.errors import BudgetExhausted, TracecloakError, UsageError, missing_extra
from tracecloak.schemas.published.manifest import MANIFEST_NAME, ReleaseManifest
from tracecloak.transforms.files import absolute, require_writable
from tracecloak.transforms.keys import KeyReference
from tracecloak.transforms.publish.names import STATEMENT_NAME
from tracecloak.transforms.publish.places import check_places
from tracecloak.transforms.publish.release_folder import ReleaseFolder, remove_folder
from tracecloak.transforms.publish.statement import publishable_statement
from tracecloak.transforms.stream.assemble import AssembleCases
from tracecloak.transforms.stream.kept_steps import KeptSteps
from tracecloak.transforms.stream.messages import EVENTS, REJECTS, DecodeMessages, WarnOfBacklog
from tracecloak.transforms.stream.publish_steps import PublishSteps
from tracecloak.transforms.stream.step_files import (
    WriteRejects,
    WriteSteps,
    epoch_folder,
    epoch_workplace,
    write_whole,
)
from tracecloak.transforms.stream.step_topic import PublishToTopic

_LOG = logging.getLogger("tracecloak")

# What a runner gives the promise, and what it does not, for the manifest.
RUNNERS: dict[str, tuple[str, ...]] = {
    STREAMING_RUNNER: (
        "It runs in one process and keeps everything in its memory: when the process ends, open "
        "cases, closed ones and counts are forgotten. A case that goes on afterwards could count "
        "twice, so once a step is published a restart needs another epoch, which is another spend.",
        "Messages are acknowledged before they are processed: those under way when the process "
        "ends are lost.",
        "Its watermark is the clock on the wall, not the age of unread messages: a backlog older "
        "than release_delay is late, and cases of steps that are over are not counted.",
        "Counts are not kept durably before noise is added (unsafe_barrier). What a step releases "
        "is, before it is shown: a bundle that is tried again gives the same bytes, and a restart "
        "with other counts publishes again what was decided, and nothing new.",
    ),
    "DataflowRunner": (
        "State and counts are durable: a bundle that is tried again has the same input.",
        "Messages are acknowledged after they are processed, and the watermark waits for the "
        "oldest unread one.",
        "An update of the job keeps its state. A drain ends the watermark: all steps that are left "
        "are published at once, and the epoch is over. A job that is cancelled loses its state: "
        "start another epoch, which is another spend.",
    ),
}


@dataclass(frozen=True)
class Places:
    """Where a stream writes.

    Attributes:
        output: The folder of all releases.
        workplace: Where files are written before they appear, see `step_files.write_whole`.
        rejected: The folder in which messages that cannot be read are listed.
        steps: Where what each step releases is kept.
    """

    output: str
    workplace: str
    rejected: str
    steps: KeptSteps


@dataclass(frozen=True)
class StreamOutcome:
    """How a stream ended.

    Attributes:
        folder: Where its epoch lies.
        is_spent: Whether the last step of the horizon is published.
    """

    folder: str
    is_spent: bool


def run_stream(
    config: StreamConfig,
    beam_arguments: Sequence[str] = (),
    messages: beam.PTransform | None = None,
    sinks: Sequence[beam.PTransform] = (),
) -> StreamOutcome:
    """Pays for a stream and runs it until it is interrupted, or its source ends.

    Args:
        config: What is published, of what.
        beam_arguments: Flags of Beam.
        messages: What gives the messages (`transforms.formats.messages.Message`, each with the
            time of its publishing for its element time) in place of the configured source.
        sinks: What takes the releases beside the files and the configured topic.

    Raises:
        TracecloakError: It could not begin, or it failed, for the reason that the error gives.
    """
    options = stream_options(config.runner, beam_arguments)
    product = config.made_product()
    source = source_of(config) if messages is None else messages
    others = list(sinks)
    if config.output_topic is not None:
        others.append(PublishToTopic(config.output_topic))
    output = absolute(config.output)
    check_places(output, config.dead_letter)
    require_writable("output", config.output)
    if config.dead_letter is not None:
        require_writable("dead_letter", config.dead_letter)
    store = open_store(config)
    ledger = open_ledger(config, store)
    check_worker_keys(config)
    check_ready(options)
    name = config.name
    with store.alone(output, name.both):
        keys = _paid(config, product, store, ledger, output)
        folder = epoch_folder(output, config.release_id, config.epoch)
        workplace = epoch_workplace(output, config.release_id, config.epoch, config.staging_area)
        remove_folder(workplace)  # a run that was cut off may have left some of a file
        manifest = manifest_of(config, product, keys[0].resolve().fingerprint)
        _write_manifest(config, product, manifest, folder, workplace)
        for line in product.explain():
            _LOG.info("%s", line)
        pipeline = beam.Pipeline(options=options)
        private = store.operator_folder(output, name.both)
        kept = KeptSteps(FileSystems.join(private, "decisions"), product.released)
        places = Places(output, workplace, config.dead_letter or private, kept)
        build_stream(pipeline, source, config, product, keys, places, manifest, others)
        try:
            _run(pipeline)
        except TracecloakError:
            raise
        except Exception as error:
            raise _translated(error) from error
        remove_folder(workplace)
        is_spent = FileSystems.exists(_last_file(config, product, folder))
        if is_spent:  # nothing more is drawn, so nobody needs the key, and what it is kept for
            store.commit(output, name.both)
            remove_folder(kept.folder)
    return StreamOutcome(folder, is_spent)


def build_stream(
    pipeline: beam.Pipeline,
    source: beam.PTransform | beam.PCollection,
    config: StreamConfig,
    product: StepProduct,
    keys: tuple[KeyReference, KeyReference],
    places: Places,
    manifest: ReleaseManifest,
    sinks: Sequence[beam.PTransform] = (),
) -> beam.PCollection:
    """Adds all of a stream to a pipeline; returns the releases, each after its files are there.

    Args:
        pipeline: The pipeline.
        source: What gives the messages, or they themselves; in the global window, each with the
            time of its publishing for its element time.
        config: What is published.
        product: The same, as it is made.
        keys: (key of the epoch's noise, key of identities).
        places: Where it writes.
        manifest: What the stream says of itself.
        sinks: What takes the releases once they are written.
    """
    noise, identities = keys
    rule = config.rule
    messages = source if isinstance(source, beam.PCollection) else pipeline | "Messages" >> source
    if is_local(config.runner):  # others' watermarks wait for what is not read yet
        messages = messages | "WarnOfBacklog" >> beam.ParDo(WarnOfBacklog(config.release_delay))
    decoded = messages | "DecodeMessages" >> DecodeMessages(config.layout)
    closed = decoded[EVENTS] | "AssembleCases" >> AssembleCases(
        rule, identities, config.n_shards, config.by_individual, config.cap
    )
    begun = pipeline | "Begin" >> beam.Create([None])
    released = closed | "PublishSteps" >> PublishSteps(
        product, rule, config.name, noise, places.steps, [begun]
    )
    written = released | "WriteSteps" >> WriteSteps(
        places.output, config.written, manifest, places.workplace
    )
    for i, sink in enumerate(sinks):
        _ = written | f"Sink{i}" >> sink
    rejects = decoded[REJECTS] | "WriteRejects" >> WriteRejects(places.rejected)
    if config.reject_topic is not None:
        _ = (
            rejects
            | "ToBytes" >> beam.Map(str.encode).with_output_types(bytes)
            | "RejectTopic" >> beam.io.WriteToPubSub(config.reject_topic)
        )
    return written


def source_of(config: StreamConfig) -> beam.PTransform:
    """Returns what reads the configured subscription or topic.

    Raises:
        UsageError: Its name is none, or what is needed to read Pub/Sub is not installed.
    """
    try:
        importlib.import_module("google.cloud.pubsub_v1")
    except ImportError:
        # Dataflow's extra has the library too.
        extra = "pubsub" if is_local(config.runner) else "gcp"
        raise missing_extra("Pub/Sub", "google-cloud-pubsub", extra) from None
    if is_local(config.runner):
        mend_local_streaming()
    try:
        # Without a timestamp attribute: elements have the time of their publishing.
        return beam.io.ReadFromPubSub(
            topic=config.input_topic,
            subscription=config.input_subscription,
            with_attributes=True,
        )
    except ValueError as error:
        raise UsageError(f"input_subscription or input_topic: {error}") from None


def stream_options(runner: str, arguments: Sequence[str]) -> PipelineOptions:
    """Returns Beam's options for a stream.

    Raises:
        UsageError: The runner reads no Pub/Sub.
    """
    if runner == "DirectRunner":
        _LOG.info("runner DirectRunner: using %s", STREAMING_RUNNER)
        runner = STREAMING_RUNNER
    if runner not in RUNNERS:
        raise UsageError(
            f"runner must be {' or '.join(RUNNERS)}: no other reads Pub/Sub, got {runner!r}"
        )
    options = pipeline_options(runner, arguments, must_end=False)
    options.view_as(StandardOptions).streaming = True
    return options


def manifest_of(
    config: StreamConfig, product: StepProduct, key_fingerprint: str
) -> ReleaseManifest:
    """Returns what a stream says of itself; nothing of it was counted on the input."""
    kept = (
        "product", "view", "sliding_steps", "epsilon", "delta", "max_cases", "vocabulary",
        "max_trace_length", "l2_clip", "guarantee", "w_event_steps", "max_cases_per_individual",
        "log_params", "horizon", "end_activity",
    )  # fmt: skip
    dumped = config.explicit.model_dump(mode="json")
    durations = ("period", "gap", "max_lifetime", "max_disorder", "tombstone", "release_delay")
    params = {
        **{name: dumped[name] for name in kept},
        **{f"{name}_seconds": dumped[name] / 1_000_000 for name in durations},
        "start": _iso(config.start),
    }
    if config.allow_large_delta:
        params["allow_large_delta"] = True
    guarantee = product.guarantee()
    forgotten = (
        f"A closed case is remembered for {config.tombstone // 1_000_000:,} seconds after its last "
        "message: one that goes on after that counts as another case."
    )
    restarted = (
        "Epochs add up: a case in steps of two of them, as after a restart that forgets who has "
        "closed, is protected with the sum of their epsilons."
    )
    return ReleaseManifest(
        release_id=config.name.both,
        method=f"stream of {config.product}",
        params=params,
        guarantee=replace(guarantee, not_covered=(*guarantee.not_covered, forgotten, restarted)),
        operations=product.operations,
        spends=tuple(part.to_json() for part in product.spends()),
        config_digest=without_filters(config).digest,
        key_fingerprint=key_fingerprint,
        exact_noise=True,
        unsafe_barrier=not is_durable(config.runner),
        beam_version=version(),
    )


def _write_manifest(
    config: StreamConfig,
    product: StepProduct,
    manifest: ReleaseManifest,
    folder: str,
    workplace: str,
) -> None:
    """Writes manifest and statement when an epoch begins, and never again."""
    path = FileSystems.join(folder, MANIFEST_NAME)
    if FileSystems.exists(path):
        return
    body = {
        **manifest.to_json([]),
        "stream": {
            "epoch": config.epoch,
            "start_us": config.start,
            "period_us": config.period,
            "n_steps": product.horizon,
            "explained": list(product.explain()),
            "runner": config.runner,
            "runner_facts": list(RUNNERS.get(config.runner, ())),
        },
    }
    statement = publishable_statement(manifest, has_error_bars=False).encode()
    write_whole(FileSystems.join(folder, STATEMENT_NAME), statement, workplace)
    text = json.dumps(body, indent=2, ensure_ascii=False) + "\n"
    write_whole(path, text.encode(), workplace)


def _paid(
    config: StreamConfig, product: StepProduct, store: KeyStore, ledger: Ledger, output: str
) -> tuple[KeyReference, KeyReference]:
    """Takes what the horizon costs from the account, once; returns (noise key, identity key).

    Raises:
        UsageError: The epoch was begun with another configuration, or was withdrawn, or there is no
            place in which files can be written before they are seen.
        BudgetExhausted: The account has too little left, or the epoch is over.
    """
    name = config.name
    receipt = store.receipt(output, name.both)
    if receipt is not None:
        receipt.check_not_withdrawn()
    ledger.check_not_withdrawn(output, name.both)
    if receipt is not None and receipt.state == "committed":
        raise BudgetExhausted(
            f"the budget of epoch {config.epoch!r} of {config.release_id!r} is spent: its last "
            "step is published. Begin another epoch, which is another spend"
        )
    ReleaseFolder(output, config.release_id, config.staging_area).prepare()
    is_new = store.unfinished(output, name.both) is None
    try:
        key = store.reserve(
            output, name.both, "", name.config_digest, staging_area=config.staging_area
        )
    except UsageError as error:
        if is_new:
            raise
        raise UsageError(
            f"epoch {config.epoch!r} of {config.release_id!r} was begun with another "
            "configuration; begin another epoch, which is another spend"
        ) from error
    # The same in all epochs: whoever is remembered to have closed stays closed.
    identities = store.reserve(output, f"{config.release_id}@", "", "")
    fingerprint = key.resolve().fingerprint
    spends = product.spends()
    epsilon, delta = total(spends)
    guarantee = product.guarantee()
    reservation = Reservation(
        account=config.account,
        release_id=name.both,
        output=output,
        epsilon=epsilon,
        delta=delta,
        unit=guarantee.unit,
        adjacency=guarantee.adjacency,
        method=f"stream of {config.product}",
        spends=tuple(part.to_json() for part in spends),
        config_digest=without_filters(config).digest,  # others may read the ledger
        key_fingerprint=fingerprint,
        dataset=config.dataset,
    )
    try:
        ledger.reserve(reservation)
    except (UsageError, BudgetExhausted):
        if is_new:  # nothing was charged to it or drawn with it
            store.forget(output, name.both)
        raise
    ledger.commit(output, name.both, fingerprint)
    return key, identities


def _run(pipeline: beam.Pipeline) -> None:
    result = pipeline.run()
    try:
        result.wait_until_finish()
    except KeyboardInterrupt:
        result.cancel()
        _LOG.warning("stopped; what was published stays published, and what was paid stays spent")


def _last_file(config: StreamConfig, product: StepProduct, folder: str) -> str:
    step = f"step-{product.horizon - 1:06d}{product.released.json_ending}"
    place = (f"product={config.product}", f"view={config.view}", step)
    return cast(str, FileSystems.join(folder, *place))


def _iso(micros: int) -> str:
    origin = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
    return (origin + datetime.timedelta(microseconds=micros)).isoformat()


def _translated(error: Exception) -> TracecloakError:
    """Finds our own error in what a runner made of it; what is not ours is not quoted."""
    return own_error(error) or TracecloakError(
        f"the stream failed with {reason_of(error)}; what was published stays published, and what "
        "was paid stays spent. Run with --traceback to see where; that output can hold private data"
    )
