"""The logs of a linkage attack: read from files or releases, their sensitive values coded alike.

Of two releases of a growing log an attacker takes for granted how they were made. Take a release in
which events of activity X occur, made by a method that suppresses an activity in the whole log or
nowhere. Then no X is missing from it, so a case without X had none. Two such releases show the same
of a case in all elements that both have, and the later one shows perhaps more, as the case went on.
So a case of the earlier release can only be one of the later release that *begins with the same
common elements*, with the same times between them if both have these to the same accuracy, and with
the same sensitive values.

How far that goes depends on the method:

* `tlkc` with sets or sequences suppresses elements in the whole log: `elements`.
* `tlkc` with multisets can suppress second and later ones alone, so first ones are compared:
  `repetitions`.
* `k-anonymous-variants` leaves whole cases out, and the others as they are: `cases`.
* Where times are known, `tlkc` suppresses an element at certain times since the first event left,
  which the suppression itself moves; `k-anonymous-subtraces` shortens each variant in its own way,
  and `pretsa` gives cases other variants. Of these, events that were released exclude nothing for
  certain; sensitive values do: `anything`.

What is excluded by this is certain as long as it holds, a case only gets later events, and its
sensitive values stay as they are.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tracecloak.anonymizers.contract.in_memory import group_into_traces
from tracecloak.examination.linkage.knowledge import LinkedLog
from tracecloak.examination.measure.perspectives import RESOURCE
from tracecloak.pipelines.verification.data import Contents
from tracecloak.pipelines.verification.received import Received
from tracecloak.schemas.errors import InputSchemaError, UsageError
from tracecloak.schemas.events.columns import ColumnMapping
from tracecloak.schemas.events.events import is_case_attribute
from tracecloak.schemas.events.traces import TraceBatch
from tracecloak.schemas.published.manifest import MANIFEST_NAME, has_times
from tracecloak.schemas.statistics.background_knowledge import Perspective, TimeUnit
from tracecloak.transforms.formats.registry import SourceFormat
from tracecloak.transforms.inputs.source_files import match_files
from tracecloak.transforms.publish.release_folder import LATEST_NAME
from tracecloak.transforms.sources import EventSource

# Up to so many different numbers are values like texts; more are put into three boxes.
_FEW_NUMBERS = 10
_LOW, _MIDDLE, _HIGH = 1, 2, 3


@dataclass(frozen=True, eq=False)
class ReleasedLog:
    """A released log as it was read.

    Attributes:
        path: Where it was said to be.
        traces: Its cases.
        has_times: Whether its stamps are times.
    """

    path: str
    traces: TraceBatch
    has_times: bool = True


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


def read_released(path: str, names: Sequence[str]) -> ReleasedLog:
    """Reads a released log with those of some attributes that it has.

    Args:
        path: A release's folder, the folder of releases whose latest is meant, or files.
        names: Of attributes as they are released.

    Raises:
        UsageError: There is nothing, or the release holds no log.
        InputSchemaError: It cannot be read.
    """
    if is_release(path):
        with _naming(path):
            release = Received.at(path)
            traces = Contents(release).whole(names)
        if traces is None:
            raise UsageError(f"the release in {path!r} holds no log: no case of it can be linked")
        return ReleasedLog(path, traces, has_times(release.body["operations"]))
    source = EventSource(tuple(match_files([path])), SourceFormat(), ColumnMapping())
    by_file = [source.columns_of(file) for file in source.files]
    known = [n for n in names if all(columns is None or n in columns for columns in by_file)]
    return ReleasedLog(path, _read(source, {name: name for name in known}))


@contextmanager
def _naming(path: str) -> Iterator[None]:
    """Names one of several releases in an error, which names a file of it."""
    try:
        yield
    except InputSchemaError as error:
        raise InputSchemaError(f"release {path!r}: {error}") from None


def is_release(path: str) -> bool:
    """Whether a path means a release, by what it holds or by being a folder; else it is files."""
    from apache_beam.io.filesystems import FileSystems

    names = (MANIFEST_NAME, LATEST_NAME)
    return Path(path).is_dir() or any(
        FileSystems.exists(FileSystems.join(path, name)) for name in names
    )


def _read(source: EventSource, columns: Mapping[str, str]) -> TraceBatch:
    mapping = replace(source.mapping, attributes=tuple(columns.items()))
    carrying = replace(source, mapping=mapping)
    batches = group_into_traces(carrying.events(), drops_duplicates=source.drops_duplicates)
    return batches[0] if batches else TraceBatch.from_events([])


def linked(
    original: TraceBatch, releases: Sequence[ReleasedLog], sensitive: Sequence[str]
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
        numbers = [_numbers(column) for column in texts]
        originals = numbers[0][~np.isnan(numbers[0])]
        is_numeric = len(originals) == len(texts[0]) - texts[0].null_count
        if is_numeric and len(np.unique(originals)) > _FEW_NUMBERS:
            low, high = np.quantile(originals, [0.25, 0.75])
            for of_log, column in zip(labels, numbers, strict=True):
                boxes = np.where(column < low, _LOW, np.where(column > high, _HIGH, _MIDDLE))
                of_log[:, k] = np.where(np.isnan(column), 0, boxes)
        else:
            for of_log, codes in zip(labels, coded(texts), strict=True):
                of_log[:, k] = codes
    return LinkedLog("original", original, labels[0]), [
        LinkedLog(release.path, release.traces, values_of_cases, release.has_times)
        for release, values_of_cases in zip(releases, labels[1:], strict=True)
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


def _numbers(texts: pa.Array) -> np.ndarray:
    """float64[n], NaN for what is none."""
    coded = texts.dictionary_encode()
    values = np.array([_number(text) for text in coded.dictionary.to_pylist()] + [np.nan])
    return values[np.asarray(pc.fill_null(coded.indices, len(values) - 1))]


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return np.nan


Suppressed = Literal["elements", "repetitions", "cases", "anything"]
SUPPRESSED: tuple[str, ...] = get_args(Suppressed)
# Where nothing says which k was promised, a case is asked to have one other beside it.
DEFAULT_K = 2

_TLKC: dict[str, Suppressed] = {
    "set": "elements",
    "sequence": "elements",
    "multiset": "repetitions",
    "relative": "anything",
}


@dataclass(frozen=True)
class Making:
    """How one release was made, as everybody can read in its manifest.

    Attributes:
        suppressed: What was left out; see the module.
        perspective: What an element is that was suppressed.
        time_unit: Accuracy of its times since the first event; None: not known.
        resources: The declaration of its resources, as JSON; empty: none.
        sensitive: Its sensitive attributes with their declarations as JSON; of files all that are
            asked for, undeclared.
        k: How many cases the release promises to be alike; None: it says none.
    """

    suppressed: Suppressed = "elements"
    perspective: Perspective = "activity"
    time_unit: TimeUnit | None = None
    resources: str = ""
    sensitive: Mapping[str, str] = field(default_factory=dict)
    k: int | None = None


def making_of(path: str, files: Making) -> Making:
    """Reads how a release was made.

    Args:
        path: A release's folder, the folder of releases whose latest is meant, or files.
        files: What is supposed of files.

    Raises:
        UsageError: The release is of a method that promises no syntactic property.
    """
    if not is_release(path):
        return files
    with _naming(path):
        manifest = Received.at(path).body
    if manifest["guarantee"]["kind"] != "syntactic":
        raise UsageError(
            f"released {path!r} is of {manifest['method']}, which draws noise: attacks across "
            "releases are on syntactic methods. What several noisy releases tell together is what "
            "the ledger adds up; leave out --growing"
        )
    return _making(manifest["method"], manifest["params"])


def _making(method: str, params: Mapping[str, Any]) -> Making:
    sensitive = {name: json.dumps(of) for name, of in params.get("sensitive", {}).items()}
    resources, perspective = params.get("resources") or {}, params.get("perspective", "activity")
    k, unit = params.get("k"), params.get("time_unit")
    suppressed: Suppressed = "anything"
    if method == "tlkc":
        suppressed = _TLKC[params["knowledge_kind"]]
    elif method == "k-anonymous-variants":
        suppressed = "cases"
    if perspective != "activity" and RESOURCE not in resources:
        suppressed, perspective = "anything", "activity"
    return Making(suppressed, perspective, unit, json.dumps(resources), sensitive, k)


@dataclass(frozen=True)
class Supposed:
    """What is taken for granted of an earlier and a later release.

    Attributes:
        earlier: How the earlier one was made.
        later: How the later one was made.
        grows: Whether a case can go on after the earlier release.
    """

    earlier: Making
    later: Making
    grows: bool = True

    @property
    def is_traced(self) -> bool:
        """Whether released events exclude anything."""
        both = (self.earlier, self.later)
        alike = self.earlier.perspective == self.later.perspective and (
            self.earlier.perspective == "activity" or self.earlier.resources == self.later.resources
        )
        return alike and all(making.suppressed != "anything" for making in both)

    @property
    def perspective(self) -> Perspective:
        """What an element is."""
        return self.earlier.perspective if self.is_traced else "activity"

    @property
    def first_only(self) -> bool:
        """Whether only the first of equal elements of a case is compared."""
        return "repetitions" in (self.earlier.suppressed, self.later.suppressed)

    @property
    def time_unit(self) -> TimeUnit | None:
        """To which times between events are compared; None: not at all."""
        same = self.earlier.time_unit == self.later.time_unit
        return self.earlier.time_unit if self.is_traced and same else None

    @property
    def vanishing(self) -> Literal["any", "empty"]:
        """Which cases of the earlier release can be missing from the later one."""
        return "empty" if self.is_traced and self.later.suppressed != "cases" else "any"

    @property
    def sensitive(self) -> tuple[str, ...]:
        """Attributes of the case that both released alike."""
        return tuple(
            name
            for name, declared in self.earlier.sensitive.items()
            if self.later.sensitive.get(name) == declared
        )

    def sentences(self) -> Iterator[str]:
        """Yields what is taken for granted, for a reader."""
        if self.is_traced:
            what = "first of equal elements" if self.first_only else "elements"
            how = "begins with" if self.grows else "has exactly"
            times = f", with the same {self.time_unit} between them" if self.time_unit else ""
            yield (
                "A case of the earlier release can only be one of the later release that "
                f"{how} the same {what} that both releases show{times}."
            )
        else:
            yield (
                "The events of a released case exclude nothing for certain, as these releases "
                "shorten or change each case in its own way."
            )
        if self.sensitive:
            yield f"The same case has the same {', '.join(self.sensitive)} in both."
        if self.vanishing == "any":
            yield "A case of the earlier release may be missing from the later one."
        else:
            yield (
                "Every case of the earlier release is in the later one, but for those with no "
                "element that the later one shows."
            )
