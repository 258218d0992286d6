"""The Beam pipeline of a release, from its files to its commit."""

from __future__ import annotations

import apache_beam as beam

from tracecloak.schemas.published.manifest import ReleaseManifest
from tracecloak.transforms.batch.anonymize import AnonymizeTraces, Run
from tracecloak.transforms.batch.read import EVENTS, ReadEventLog
from tracecloak.transforms.batch.traces import GroupIntoTraces
from tracecloak.transforms.batch.validate import CheckRejects, DeadLetter
from tracecloak.transforms.batch.window_part import KeepCounted, WindowPart, WriteUnits
from tracecloak.transforms.batch.write import WriteRelease
from tracecloak.transforms.publish.release_folder import ReleaseFolder
from tracecloak.transforms.sources import EventSource


def build_release(
    pipeline: beam.Pipeline,
    source: EventSource,
    dead_letter: DeadLetter,
    run: Run,
    folder: ReleaseFolder,
    manifest: ReleaseManifest,
    formats: tuple[str, ...],
    n_shards: int,
    n_parts: int,
    part: WindowPart | None = None,
) -> None:
    """Adds all of a release to a pipeline: read, check, group, anonymise, write, commit."""
    read = pipeline | "ReadEventLog" >> ReadEventLog(source, dead_letter.folder)
    checked = read | "CheckRejects" >> CheckRejects(dead_letter)
    grouped = read[EVENTS] | "GroupIntoTraces" >> GroupIntoTraces(
        n_shards, wait_on=checked, by_individual=run.by_individual
    )
    traces = grouped["traces"]
    if part is not None:
        traces = traces | "Window" >> KeepCounted(part)
    made = traces | "AnonymizeTraces" >> AnonymizeTraces(run, n_shards, wait_on=checked)
    _ = made["traces"] | "WriteRelease" >> WriteRelease(
        folder, manifest, formats, n_parts, run, made["products"], wait_on=checked
    )


def build_units(
    pipeline: beam.Pipeline,
    source: EventSource,
    dead_letter: DeadLetter,
    part: WindowPart,
    n_shards: int,
) -> None:
    """Adds what comes before the release of a window: read, check, group, write its units down."""
    read = pipeline | "ReadEventLog" >> ReadEventLog(source, dead_letter.folder)
    checked = read | "CheckRejects" >> CheckRejects(dead_letter)
    grouped = read[EVENTS] | "GroupIntoTraces" >> GroupIntoTraces(
        n_shards, wait_on=checked, by_individual=part.by_individual
    )
    _ = grouped["traces"] | "Units" >> WriteUnits(part)
