"""The Beam pipeline of a release, from its files to its commit."""

from __future__ import annotations

import apache_beam as beam

from schemas.release import ReleaseManifest
from transforms.anonymize import AnonymizeTraces, Run
from transforms.read import EVENTS, EventSource, ReadEventLog
from transforms.release_folder import ReleaseFolder
from transforms.traces import GroupIntoTraces
from transforms.validate import CheckRejects, DeadLetter
from transforms.write import WriteRelease


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
) -> None:
    """Adds all of a release to a pipeline: read, check, group, anonymise, write, commit."""
    read = pipeline | "ReadEventLog" >> ReadEventLog(source)
    checked = read | "CheckRejects" >> CheckRejects(dead_letter)
    grouped = read[EVENTS] | "GroupIntoTraces" >> GroupIntoTraces(
        n_shards, wait_on=checked, by_individual=run.by_individual
    )
    made = grouped["traces"] | "AnonymizeTraces" >> AnonymizeTraces(run, n_shards)
    _ = made["traces"] | "WriteRelease" >> WriteRelease(
        folder, manifest, formats, n_parts, run, made["products"]
    )
