"""The logs of a linkage attack: read from files or releases, their sensitive values coded alike."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tracecloak.examination.linkage.knowledge import LinkedLog, no_values
from tracecloak.examination.measure.behaviour_measures import RESOURCE
from tracecloak.pipelines.verification.data import Contents
from tracecloak.pipelines.verification.received import Received
from tracecloak.schemas.errors import InputSchemaError, UsageError
from tracecloak.schemas.events.columns import ColumnMapping
from tracecloak.schemas.events.declarations import numbers_of
from tracecloak.schemas.events.events import is_case_attribute
from tracecloak.schemas.events.traces import TraceBatch
from tracecloak.schemas.published.manifest import MANIFEST_NAME, has_times
from tracecloak.transforms.formats.registry import SourceFormat
from tracecloak.transforms.inputs.source_files import match_files
from tracecloak.transforms.publish.release_folder import LATEST_NAME
from tracecloak.transforms.sources import EventSource

# Up to so many different numbers are values like texts; more are put into three boxes.
FEW_NUMBERS = 10
_LOW, _MIDDLE, _HIGH = 1, 2, 3


def sensitive_columns(text: str) -> dict[str, str]:
    """Reads `case:NAME` or `case:NAME=COLUMN`, separated by commas.

    Returns:
        Name in a release to the original's column.

    Raises:
        UsageError: A name is not one of the case, or is repeated.
    """
    columns: dict[str, str] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, _, column = part.partition("=")
        if not is_case_attribute(name) or name in columns:
            raise UsageError(
                f"sensitive {part!r} must be case:NAME or case:NAME=COLUMN, each name once: the "
                "attribute as it is released, and the original's column"
            )
        columns[name] = column or name
    return columns


def read_original(source: EventSource, sensitive: Mapping[str, str]) -> TraceBatch:
    """Reads the original with the resource, if its column is mapped, and sensitive attributes.

    Raises:
        InputSchemaError: It cannot be read, or lacks a column.
    """
    columns = dict(sensitive)
    if source.mapping.resource is not None:
        columns[RESOURCE] = source.mapping.resource
    return _read(source, columns)


def read_released(path: str, names: Sequence[str]) -> LinkedLog:
    """Reads a released log with those of some attributes that it has; no label is given yet.

    Args:
        path: A release's folder, the folder of releases whose latest is meant, or files.
        names: Of attributes as they are released.

    Raises:
        UsageError: There is nothing, or the release holds no log.
        InputSchemaError: It cannot be read.
    """
    if is_release(path):
        try:
            release = Received.at(path)
            traces = Contents(release).whole(names)
        except InputSchemaError as error:  # which names a file of it, but not the release
            raise InputSchemaError(f"release {path!r}: {error}") from None
        if traces is None:
            raise UsageError(f"the release in {path!r} holds no log: no case of it can be linked")
        return LinkedLog(path, traces, no_values(traces), has_times(release.body["operations"]))
    source = EventSource(tuple(match_files([path])), SourceFormat(), ColumnMapping())
    by_file = [source.columns_of(file) for file in source.files]
    known = [n for n in names if all(columns is None or n in columns for columns in by_file)]
    traces = _read(source, {name: name for name in known})
    return LinkedLog(path, traces, no_values(traces))


def is_release(path: str) -> bool:
    """Whether a path means a release, by what it holds or by being a folder; else it is files."""
    from apache_beam.io.filesystems import FileSystems

    names = (MANIFEST_NAME, LATEST_NAME)
    return Path(path).is_dir() or any(
        FileSystems.exists(FileSystems.join(path, name)) for name in names
    )


def _read(source: EventSource, columns: Mapping[str, str]) -> TraceBatch:
    mapping = replace(source.mapping, attributes=tuple(columns.items()))
    return replace(source, mapping=mapping).log()


def linked(
    original: TraceBatch, releases: Sequence[LinkedLog], sensitive: Sequence[str]
) -> tuple[LinkedLog, list[LinkedLog]]:
    """Codes the sensitive values of all logs alike.

    Texts are values as they are. Numbers, if there are more than ten, are in one of three boxes by
    the quartiles of the original's cases, as in section 6.1 of the TLKC paper: below the lower one,
    above the upper one, and in between.

    Args:
        original: With its attributes.
        releases: With those that they have.
        sensitive: Names of attributes of the case.
    """
    logs = [original, *(release.traces for release in releases)]
    labels = [np.zeros((log.n_cases, len(sensitive)), np.int64) for log in logs]
    for k, name in enumerate(sensitive):
        texts = [texts_of(log, name) for log in logs]
        numbers = [numbers_of(column) for column in texts]
        originals = numbers[0][~np.isnan(numbers[0])]
        is_numeric = len(originals) == len(texts[0]) - texts[0].null_count
        if is_numeric and len(np.unique(originals)) > FEW_NUMBERS:
            low, high = np.quantile(originals, [0.25, 0.75])
            for label, column in zip(labels, numbers, strict=True):
                boxes = np.where(column < low, _LOW, np.where(column > high, _HIGH, _MIDDLE))
                label[:, k] = np.where(np.isnan(column), 0, boxes)
        else:
            for label, codes in zip(labels, coded(texts), strict=True):
                label[:, k] = codes
    return LinkedLog("original", original, labels[0]), [
        replace(release, labels=label) for release, label in zip(releases, labels[1:], strict=True)
    ]


def coded(columns: Sequence[pa.Array]) -> list[np.ndarray]:
    """Returns int32[n] of each string[n]: the place of each value among all of them; 0 for none."""
    values = pc.unique(pa.chunked_array(columns).drop_null())
    places = (pc.index_in(column, value_set=values) for column in columns)
    return [np.asarray(pc.fill_null(place, -1)) + 1 for place in places]


def texts_of(log: TraceBatch, name: str) -> pa.Array:
    """Returns string[n_cases], the values of an attribute of the case, null for none."""
    values = log.attributes.get(name)
    if values is None:
        return pa.nulls(log.n_cases, pa.string())
    return values.take(pa.array(log.offsets[:-1])).cast(pa.string())
