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
    mapping, source_format = mapping_of(config), config.source_format
    is_rigorous = isinstance(config, ReleaseConfig) and config.guarantee.kind == "rigorous"
    may_be_none = isinstance(config, ReleaseConfig)
    tables = config.tables
    if isinstance(config, ReleaseConfig) and config.query is not None:
        # One file, whose path is no pattern, and whose folders say nothing of its records.
        files = [SourceFile(0, path, os.path.getsize(path)) for path in config.log]
    elif listed is not None:
        files = list(listed)
    elif not tables:
        files = match_files(config.log, may_be_none)
    else:
        from tracecloak.transforms.lakes.tables import files_and_tables

        files = files_and_tables(config.log, tables, source_format, may_be_none)
    if left_out:
        files = [file for file in files if absolute(file.path) not in left_out]
    window = config.made_window if isinstance(config, ReleaseConfig) else None
    span_us = None if window is None else (window.reads_from_us, window.reads_until_us)
    goes_on = is_rigorous or not may_be_none
    source_format = replace(source_format, goes_on=goes_on, order=mapping.order_alone)
    is_query = isinstance(config, ReleaseConfig) and config.query is not None
    every_file = EventSource(
        tuple(files),
        source_format,
        mapping,
        span_us,
        drops_duplicates=config.drop_duplicates,
        is_unordered=bool(tables) or (is_query and not config.is_ordered_by_rows),
    )
    every_file.check_partitions()
    source = every_file.narrowed(_of_span(config, span_us))
    if files and not source.files and not may_be_none:
        raise InputSchemaError(
            f"no partition of {len(files):,} input files passes the filters; correct --where"
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


def _of_span(
    config: SourceConfig, span_us: tuple[int, int] | None
) -> Callable[[SourceFile], bool] | None:
    """Returns a test whether a file, by its partition, can hold an event that a window needs."""
    schedule = config.schedule if isinstance(config, ReleaseConfig) else None
    if span_us is None or schedule is None or schedule.partition is None:
        return None
    from tracecloak.transforms.inputs.source_files import can_hold

    return partial(
        can_hold,
        column=schedule.partition,
        zone=schedule.time_zone,
        span_us=span_us,
        spread_us=schedule.partition_spread,
    )
