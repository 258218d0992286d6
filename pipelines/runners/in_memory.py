"""A release in one process, without a pipeline: the same bytes as any runner gives."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING

from tracecloak.anonymizers.contract import in_memory
from tracecloak.anonymizers.contract.method import Anonymizer
from tracecloak.anonymizers.registry import method_named
from tracecloak.schemas.events.tally import ReadTally, TallyOfFile
from tracecloak.schemas.events.traces import TraceBatch
from tracecloak.schemas.published.manifest import OutputFile

if TYPE_CHECKING:
    from tracecloak.anonymizers.contract.counted_units import CountedUnits
    from tracecloak.schemas.published.counted import LogCounts
    from tracecloak.transforms.batch.job import Job, ReleaseSpec, Target

_LOG = logging.getLogger("tracecloak")
_OPERATOR = logging.getLogger("tracecloak.operator")
# How many cases are counted at once when a log is written.
_COUNTED_BYTES = 64 << 20


class InMemoryDriver:
    """The driver of this process; see `driver.Driver`."""

    is_local = True
    beam_version = None

    def check_ready(self) -> None:
        """Nothing more is needed than what is loaded."""

    def check_workplace(self, workplace: str) -> None:
        """There are no workers but this process."""

    def units(self, job: Job) -> CountedUnits:
        """Reads the log once and returns the units of the cases of the job's window."""
        from tracecloak.anonymizers.contract.counted_units import CountedUnits

        assert job.part is not None  # which alone asks for this
        traces = _traces(job, job.part.by_individual)
        return CountedUnits.merge([job.part.units(batch) for batch in traces])

    def run(self, job: Job) -> None:
        """Makes a release, from its files to its commit."""
        target, spec = job.target, job.target.spec
        traces = _traces(job, spec.by_individual)
        if job.part is not None:
            traces = job.part.counted_of_all(traces)
        _write_sketch(spec, traces)
        method = method_named(spec.method)
        _foretell(method, spec, traces)
        release = in_memory.anonymise(
            traces,
            method,
            spec.params,
            spec.key.resolve(),
            spec.release_id,
            spec.noise_digest,
            lambda step: _LOG.info("next: %s", step),
            spec.draws,
        )
        # The writers are loaded once there is something to write.
        from tracecloak.transforms.batch.commit import Written, commit
        from tracecloak.transforms.publish.release_files import write_products

        others = write_products(target.folder, target.manifest, release.products)
        parts: list[OutputFile] = []
        log: LogCounts | None = None
        if method.log != "none":
            parts, log, beside = _write_log(target, [*release.traces, *spec.columns])
            others += beside
        commit(target, Written(parts, others, release.products, log))


def _traces(job: Job, by_individual: bool) -> list[TraceBatch]:
    """Reads all files, lists what is malformed, and returns the cases.

    Raises:
        InputSchemaError: The input cannot be read, or too much of it is malformed.
    """
    events, tallies = [], []
    n_files = len(job.source.files)
    for file in job.source.files:
        rejects = []
        tally = TallyOfFile(file.rank)
        for batch, rejected in job.source.read(file, tally):
            events.append(batch)
            rejects.extend([rejected] if rejected.num_rows else [])
        if rejects:
            job.dead_letter.write(file.rank, rejects)
        tallies.append(tally.result())
        progress = job.source.progress_of(file)
        _OPERATOR.info("read input %d of %d", file.rank + 1, n_files, extra=progress)
    job.dead_letter.check(ReadTally.merge(tallies))
    events[:] = job.source.ordered(events)  # in their place, as memory holds them once
    is_once = job.source.drops_duplicates
    traces = in_memory.group_into_traces(events, job.n_shards, by_individual, is_once)
    if n_dropped := sum(b.num_rows for b in events) - sum(b.n_events for b in traces):
        from tracecloak.schemas.events.duplicates import DROPPED

        _OPERATOR.warning(DROPPED, n_dropped)
    return traces


def _write_sketch(spec: ReleaseSpec, traces: Sequence[TraceBatch]) -> None:
    if spec.sketch is None:
        return
    from tracecloak.anonymizers.contract.case_sketch import CaseSketch

    deployment = spec.sketch.key.resolve()
    of_batches = [CaseSketch.from_traces(batch, deployment) for batch in traces]
    spec.sketch.write(CaseSketch.merge(of_batches), deployment)


def _foretell(method: Anonymizer, spec: ReleaseSpec, traces: Sequence[TraceBatch]) -> None:
    if not method.foretells(spec.params):
        return
    from tracecloak.schemas.statistics.variants import VariantHistogram

    variants = VariantHistogram.merge([VariantHistogram.from_traces(one) for one in traces])
    for sentence in method.foretold(variants, spec.params):
        _OPERATOR.warning("%s: %s", method.name, sentence)


def _write_log(
    target: Target, traces: Sequence[TraceBatch]
) -> tuple[list[OutputFile], LogCounts, list[OutputFile]]:
    """Returns the parts of the log, their counts, and the other files made from them."""
    from tracecloak.schemas.arrays.merging import Pieces
    from tracecloak.schemas.events.vocabulary import ActivityVocabulary
    from tracecloak.schemas.published.counted import LogCounts
    from tracecloak.schemas.published.rows import parts_of
    from tracecloak.schemas.statistics.directly_follows import DirectlyFollows
    from tracecloak.schemas.statistics.log_times import LogTimes
    from tracecloak.schemas.statistics.variants import VariantHistogram
    from tracecloak.transforms.publish.log_files import write_dfg, write_export, write_part

    folder, manifest = target.folder, target.manifest
    names = ActivityVocabulary.merge([batch.vocabulary for batch in traces])
    by_part: dict[int, list[TraceBatch]] = {number: [] for number in range(target.n_parts)}
    graph, variants = Pieces(DirectlyFollows), Pieces(VariantHistogram)
    times = Pieces(LogTimes)
    # A log that was made up is one batch, and to count one takes ten times its memory.
    for batch in (piece for whole in traces for piece in whole.split(_COUNTED_BYTES)):
        graph.add(DirectlyFollows.from_traces(batch))
        variants.add(VariantHistogram.from_traces(batch))
        times.add(LogTimes.from_traces(batch))
        for number, cases in parts_of(batch, target.n_parts):
            by_part[number].append(cases)
    parts = [write_part(folder, manifest, number, cases) for number, cases in by_part.items()]
    beside = [write_dfg(folder, graph.result(), names)]
    for kind in target.exports:
        beside.append(write_export(folder, manifest, kind, target.n_parts))
        _LOG.info("wrote %s", beside[-1].path)
    return parts, LogCounts(graph.result(), variants.result(), times.result(), names), beside
