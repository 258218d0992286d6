"""A release on a runner of Beam: its pipeline, from its files to its commit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import apache_beam as beam
import pyarrow as pa
from apache_beam.io.filesystems import FileSystems
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.portability.fn_api_runner import worker_handlers

from tracecloak.pipelines.runners.names import is_local
from tracecloak.pipelines.runners.options import check_ready, version
from tracecloak.pipelines.runners.reach import check_workers_answer, check_workers_write
from tracecloak.transforms.batch.anonymize import AnonymizeTraces
from tracecloak.transforms.batch.job import Job
from tracecloak.transforms.batch.read import EVENTS, CheckRejects, ReadFiles
from tracecloak.transforms.batch.traces import DropDuplicates, GroupIntoTraces
from tracecloak.transforms.batch.write import WriteTraces
from tracecloak.transforms.files import is_on_this_machine, remove_folder

if TYPE_CHECKING:
    from tracecloak.anonymizers.contract.counted_units import CountedUnits
    from tracecloak.transforms.batch.window_part import WindowPart


class BeamDriver:
    """The driver of one of Beam's runners; see `driver.Driver`."""

    def __init__(self, runner: str, options: PipelineOptions) -> None:
        """Keeps Beam's options, which from now on also say how to reach inputs elsewhere."""
        self.runner = runner
        self.is_local = is_local(runner)
        self.beam_version = version()
        self._options = options
        FileSystems.set_options(self._options)

    def check_ready(self) -> None:
        """Makes sure that the runner can be started, as far as this machine can tell."""
        check_ready(self._options)

    def check_workplace(self, workplace: str) -> None:
        """Makes sure that workers elsewhere answer, and can write in a folder."""
        if self.is_local:
            return
        if is_on_this_machine(workplace):
            check_workers_write(workplace, self._options)
        elif self.runner != "DataflowRunner":
            check_workers_answer(self._options)  # Dataflow starts its workers itself

    def units(self, job: Job) -> CountedUnits:
        """Reads the log once and returns the units of the cases of the job's window."""
        assert job.part is not None  # which alone asks for this
        with beam.Pipeline(options=self._options) as pipeline:
            build_units(pipeline, job, job.part)
        units = job.part.found_units()
        remove_folder(job.part.found)
        return units

    def run(self, job: Job) -> None:
        """Makes a release, from its files to its commit."""
        if self.is_local:
            _hold_less()
        with beam.Pipeline(options=self._options) as pipeline:
            build_release(pipeline, job)


def _hold_less() -> None:
    """Makes a local runner hold less, which takes its stages as long.

    Arrow's own allocator keeps what it frees for itself, and so does this process by
    `runners.memory.keep_freed_memory`: each stage would take the most that it needs from both. And
    side inputs would be cached, which lie in the memory of this process in any case.
    """
    pa.set_memory_pool(pa.system_memory_pool())
    worker_handlers.STATE_CACHE_SIZE_MB = 0


def build_release(pipeline: beam.Pipeline, job: Job) -> None:
    """Adds all of a release to a pipeline: read, check, group, anonymise, write, commit."""
    spec = job.target.spec
    checked, traces = _grouped(pipeline, job, spec.by_individual)
    if job.source.drops_duplicates:
        traces = traces | "DropDuplicates" >> DropDuplicates(
            job.dead_letter.folder, job.dead_letter.note_duplicates
        )
    if job.part is not None:
        from tracecloak.transforms.batch.window_stages import KeepCounted

        traces = traces | "Window" >> KeepCounted(job.part)
    release = traces | "AnonymizeTraces" >> AnonymizeTraces(spec, job.n_shards, wait_on=checked)
    _ = release["traces"] | "WriteRelease" >> WriteTraces(
        job.target, release["products"], wait_on=checked
    )


def build_units(pipeline: beam.Pipeline, job: Job, part: WindowPart) -> None:
    """Adds the steps before the release of a window: read, check, group, write down its units."""
    from tracecloak.transforms.batch.window_stages import WriteUnits

    _, traces = _grouped(pipeline, job, part.by_individual)
    _ = traces | "Units" >> WriteUnits(part)


def _grouped(pipeline: beam.Pipeline, job: Job, by_individual: bool) -> tuple[Any, Any]:
    """What comes once the rejects are checked, and the cases."""
    read = pipeline | "ReadEventLog" >> ReadFiles(job.source, job.dead_letter.folder)
    checked = read | "CheckRejects" >> CheckRejects(job.dead_letter)
    grouped = read[EVENTS] | "GroupIntoTraces" >> GroupIntoTraces(
        job.n_shards, wait_on=checked, by_individual=by_individual
    )
    return checked, grouped["traces"]
