"""The files that a configuration reads, looked at before anything runs; without Beam."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from functools import partial

from tracecloak.anonymizers.registry import method_named
from tracecloak.pipelines.configuration.config import ReleaseConfig, SourceConfig
from tracecloak.schemas.errors import InputSchemaError
from tracecloak.schemas.events.columns import ColumnMapping
from tracecloak.transforms.files import absolute
from tracecloak.transforms.inputs.source_files import SourceFile, match_files
from tracecloak.transforms.sources import EventSource

# How many inputs have their headers checked before anything runs, unless all must be; the readers
# check every header.
_CHECKED_FILES = 20


def source_of(
    config: SourceConfig,
    listed: Sequence[SourceFile] | None = None,
    left_out: Collection[str] = (),
    is_checked: bool = True,
) -> EventSource:
    """Returns the input files and how to read them; reads no values.

    Files whose partitions cannot pass the filters, or hold no event that the window needs, are left
    out and never opened.

    A release may have no file at all (`match_files`), as "nothing happened" is released like any
    other log. Where a true epsilon is promised, no record ends the reading, and the head of every
    file is checked, as nothing may be refused after that. Nor does a record end the reading of what
    only looks at a log.

    Args:
        config: What says where the files are.
        listed: The files that it names, as `match_files` returned them; None: it is asked.
        left_out: Absolute paths of files that are not opened.
        is_checked: Whether heads of files are checked; else no file is opened.

    Raises:
        UsageError: An input's format is not known, or its file system.
        NoSuchFile: An input is not there.
        LacksColumn: An input does not have the mapped columns.
        InputSchemaError: These are partitions of some files and not of others, or no file is left
            of what has to have one, or one cannot be read.
    """
    release = config if isinstance(config, ReleaseConfig) else None
    is_rigorous = release is not None and release.guarantee.kind == "rigorous"
    is_query, may_be_none = release is not None and release.query is not None, release is not None
    tables, mapping = config.tables, mapping_of(config)
    if is_query:
        # One file, whose path is no pattern, and whose folders say nothing of its records.
        files = [SourceFile(0, path, os.path.getsize(path)) for path in config.log]
    elif listed is not None:
        files = list(listed)
    elif not tables:
        files = match_files(config.log, may_be_none)
    else:
        from tracecloak.transforms.lakes.tables import files_and_tables

        files = files_and_tables(config.log, tables, config.source_format, may_be_none)
    if left_out:
        files = [file for file in files if absolute(file.path) not in left_out]
    window = None if release is None else release.made_window
    span_us = None if window is None else (window.reads_from_us, window.reads_until_us)
    goes_on = is_rigorous or not may_be_none
    every_file = EventSource(
        tuple(files),
        replace(config.source_format, goes_on=goes_on, order=mapping.order_alone),
        mapping,
        span_us,
        drops_duplicates=config.drop_duplicates,
        is_unordered=bool(tables) or (is_query and not config.is_ordered_by_rows),
    )
    every_file.check_partitions()
    can_hold: Callable[[SourceFile], bool] | None = None  # an event of the window, by its partition
    schedule = None if release is None else release.schedule
    if span_us is not None and schedule is not None and schedule.partition is not None:
        from tracecloak.transforms.inputs import source_files

        can_hold = partial(
            source_files.can_hold,
            column=schedule.partition,
            zone=schedule.time_zone,
            span_us=span_us,
            spread_us=schedule.partition_spread,
        )
    source = every_file.narrowed(can_hold)
    if files and not source.files and not may_be_none:
        raise InputSchemaError(
            f"no partition of {len(files):,} input files passes the filters in where; correct them"
        )
    if is_checked:
        checked = source.files if is_rigorous else source.files[:_CHECKED_FILES]
        source.check(checked, every_file.files)
    return source


def mapping_of(config: SourceConfig) -> ColumnMapping:
    """Returns what the columns of a log mean, of a release with what its method carries."""
    if not isinstance(config, ReleaseConfig):
        return config.mapping
    method, params = method_named(config.method), config.method_params
    bounds = method.bounds(params)
    return replace(
        config.mapping,
        needs_individual=bounds.max_cases_per_individual is not None,
        attributes=tuple((a.name, a.column) for a in method.attributes(params)),
        activities=bounds.vocabulary if bounds.closed else None,
    )
