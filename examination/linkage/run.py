"""Linkage attacks: how few cases match what somebody knows of one, before and after a release.

The attack models of Rafiei and van der Aalst: Group-Based Privacy Preservation Techniques for
Process Mining, section 4. Somebody knows a few elements of a case, picked at random, as a set, a
multiset, a sequence or with relative times: A1 to A3 and AT of activities, R1 to R3 and RT of
resources, AR1 to AR3 and ART of both. Who knows that much of a case of the original looks for it in
the original, or in a release, and finds some cases that match, and their sensitive values.

The victim is a case picked at random, and each part of that size of what can be known of it is as
likely as any other. Where the pieces are few, all of them are gone through and the figures are
exact; else they are estimated from independent draws, with intervals that are all right together
with a stated probability. Computed on raw data, for the operator only.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tracecloak.anonymizers.noise.randomness import Randomness
from tracecloak.examination.linkage import knowledge
from tracecloak.examination.measure.behaviour_measures import RESOURCE, has_resources
from tracecloak.examination.measure.registry import INTERNAL
from tracecloak.pipelines.verification.data import Contents
from tracecloak.pipelines.verification.received import Received
from tracecloak.schemas.errors import InputSchemaError, UsageError
from tracecloak.schemas.events.columns import ColumnMapping
from tracecloak.schemas.events.declarations import numbers_of
from tracecloak.schemas.events.events import is_case_attribute
from tracecloak.schemas.events.traces import TraceBatch
from tracecloak.schemas.published.manifest import MANIFEST_NAME, has_times
from tracecloak.schemas.statistics.background_knowledge import Kind, Perspective
from tracecloak.transforms.formats.registry import SourceFormat
from tracecloak.transforms.inputs.source_files import match_files
from tracecloak.transforms.pages.page import Chart, from_template
from tracecloak.transforms.publish.release_folder import LATEST_NAME
from tracecloak.transforms.sources import EventSource

# --- Linkage attacks: how few cases match what somebody knows of one, before and after a release. -


_LOG = logging.getLogger("tracecloak")

# The attacks by the paper's names.
_LETTERS: dict[str, Perspective] = {
    "A": "activity", "R": "resource", "AR": "activity_resource"
}  # fmt: skip
_SIGNS: dict[str, Kind] = {"1": "set", "2": "multiset", "3": "sequence", "T": "relative"}
ATTACKS: dict[str, tuple[Kind, Perspective]] = {
    f"{letters}{sign}": (kind, perspective)
    for letters, perspective in _LETTERS.items()
    for sign, kind in _SIGNS.items()
}
# Lower ends of the classes of the number of cases that match.
SET_SIZES = {"0": 0, "1": 1, "2-4": 2, "5-9": 5, "10-19": 10, "20-99": 20, "100 or more": 100}
# Of each attribute: confidence, the same above a half, certainty, belief in the true value.
_PER_ATTRIBUTE = 4


@dataclass(frozen=True)
class ValueRisk:
    """What becomes known of a sensitive attribute.

    Where nothing matches, the attacker goes by the log's cases all together.

    Attributes:
        confidence: Mean share of the most frequent value among the cases that match.
        above_half: Share of the attacks in which that is more than a half.
        certain: Share of the attacks in which all that match have the same value.
        true_value: Mean share of the victim's own value among them; 0 for a victim without one.
        largest_confidence: Of a piece that matches; None if none does. A lower bound where pieces
            are drawn.
    """

    confidence: knowledge.Estimate
    above_half: knowledge.Estimate
    certain: knowledge.Estimate
    true_value: knowledge.Estimate
    largest_confidence: float | None


@dataclass(frozen=True)
class Risk:
    """What an attack finds in one log.

    Attributes:
        log: Its name.
        known_as: The knowledge that is of use there, such as "sequence of activity"; the log may
            have no times or no resources to compare with. "nothing" if none is.
        singled_out: Share of the attacks that exactly one case matches.
        singled_out_at_worst: Share of the victims of whom some piece, of this size or smaller,
            matches one case only; None unless all pieces are gone through.
        picked: Mean of 1 over the number of cases that match, 0 where nothing does: the chance to
            pick the victim, if the victim is among them.
        smallest_set: The smallest number of cases that match, above 0; None if none ever does. An
            upper bound where pieces are drawn.
        set_sizes: Share of the attacks by the number of cases that match, by class of SET_SIZES.
        values: By sensitive attribute; None where the log has no value of it.
    """

    log: str
    known_as: str
    singled_out: knowledge.Estimate
    singled_out_at_worst: float | None
    picked: knowledge.Estimate
    smallest_set: int | None
    set_sizes: dict[str, knowledge.Estimate]
    values: tuple[ValueRisk | None, ...]


@dataclass(frozen=True)
class Linkage:
    """One attack with knowledge of one size.

    Attributes:
        attack: The paper's name of it.
        kind: How what is known is put together.
        perspective: Of what.
        size: Elements that are known, or all that there are.
        victims: Cases of the original of which something can be known.
        exact: Whether all pieces were gone through.
        pieces: Different pieces that were matched.
        before: In the original.
        after: In each release.
    """

    attack: str
    kind: Kind
    perspective: Perspective
    size: int
    victims: int
    exact: bool
    pieces: int
    before: Risk
    after: tuple[Risk, ...]


def link(
    original: knowledge.LinkedLog,
    releases: Sequence[knowledge.LinkedLog],
    randomness: Randomness,
    settings: knowledge.Settings | None = None,
) -> Iterator[Linkage]:
    """Yields what each attack finds, by attack and size.

    Attacks on resources are left out if the original has none.

    Args:
        original: Where victims are from.
        releases: Logs made of it; cases of a release need not be of the original.
        randomness: What draws of victims and pieces come from.
        settings: By default all sizes to the hour.

    Raises:
        UsageError: The original has no case, or the logs have too many names.
    """
    settings = settings or knowledge.Settings()
    if not original.traces.n_cases:
        raise UsageError("a linkage attack needs a log with at least one case")
    has_any = has_resources(original.traces)
    attacks = {n: a for n, a in ATTACKS.items() if has_any or a[1] == "activity"}
    n_logs, n_attributes = 1 + len(releases), original.labels.shape[1]
    per_log = 2 + len(SET_SIZES) + _PER_ATTRIBUTE * n_attributes
    n_intervals = len(attacks) * len(settings.sizes) * n_logs * per_log
    alpha = (1 - settings.confidence) / n_intervals
    for number_of, (name, (kind, perspective)) in enumerate(attacks.items()):
        progress = {"stage": "linkage", "done": number_of, "total": len(attacks)}
        _LOG.info("attack %s: %d of %d", name, number_of + 1, len(attacks), extra=progress)
        known = knowledge.KnownVictims.of(original, releases, kind, perspective, settings.unit)
        is_worst_known = True
        worst = np.zeros((n_logs, len(known.own.counts)), bool)
        for size in settings.sizes:
            drawn = known.pieces(size, settings, randomness, f"linkage/{name}/{size}")
            is_worst_known &= drawn.is_exact
            risks = []
            for number, target in enumerate(known.targets):
                matches = target.match(drawn)
                np.logical_or.at(worst[number], drawn.rows, matches.sizes[drawn.piece] == 1)
                share = float(known.own.counts[worst[number]].sum() / known.own.n_cases)
                risks.append(
                    _risk(target, drawn, matches, alpha, share if is_worst_known else None)
                )
            found = known.own.n_cases, drawn.is_exact, len(drawn.pieces), risks[0], tuple(risks[1:])
            yield Linkage(name, kind, perspective, size, *found)


def _risk(
    target: knowledge.Target,
    drawn: knowledge.Pieces,
    matches: knowledge.Matches,
    alpha: float,
    at_worst: float | None,
) -> Risk:
    def mean(by_piece: np.ndarray) -> knowledge.Estimate:
        return drawn.estimate(by_piece[drawn.piece], alpha)

    sizes, among = matches.sizes, np.maximum(matches.among, 1)
    occurring = sizes > 0
    values: list[ValueRisk | None] = []
    for k, totals in enumerate(target.totals):
        largest, own = matches.largest[:, k], matches.own[:, k]
        shares = largest / among
        found = ValueRisk(
            confidence=mean(shares),
            above_half=mean(2 * largest > matches.among),
            certain=mean((largest == matches.among) & (matches.among > 0)),
            true_value=drawn.estimate(own / among[drawn.piece], alpha),
            largest_confidence=float(shares[occurring].max()) if occurring.any() else None,
        )
        values.append(found if totals[1:].any() else None)
    classes = np.searchsorted([*SET_SIZES.values()], sizes, side="right") - 1
    return Risk(
        target.name,
        target.known_as,
        singled_out=mean(sizes == 1),
        singled_out_at_worst=at_worst,
        picked=mean(occurring / np.maximum(sizes, 1)),
        smallest_set=int(sizes[occurring].min()) if occurring.any() else None,
        set_sizes={name: mean(classes == number) for number, name in enumerate(SET_SIZES)},
        values=tuple(values),
    )


# --- The report of linkage attacks, as JSON and as Markdown: for the operator, not private. ------


def report_of(
    original: knowledge.LinkedLog,
    releases: Sequence[knowledge.LinkedLog],
    sensitive: Sequence[str],
    settings: knowledge.Settings,
    attacks: Sequence[Linkage],
) -> tuple[dict[str, Any], list[str], list[Chart], list[str]]:
    """Returns the report of all attacks on some releases of one log; not private.

    Args:
        original: The log of the victims.
        releases: The released logs.
        sensitive: Names of the sensitive attributes.
        settings: How the attacks were made.
        attacks: What they found.

    Returns:
        JSON values; Markdown, line by line; how often exactly one case matches, before and in each
        release; and in a few lines what the largest knowledge singles out.
    """
    given = {
        "original": original, "releases": releases, "sensitive": sensitive, "settings": settings,
        "attacks": attacks, "internal": INTERNAL, "has_resources": has_resources,
    }  # fmt: skip
    rows = [
        {
            "label": f"{one.attack} with {one.size}{f', {risk.log}' if len(releases) > 1 else ''}",
            "before": one.before.singled_out.value,
            "after": risk.singled_out.value,
        }
        for one in attacks
        for risk in one.after
    ]
    chart = Chart("linkage", "How often exactly one case matches what somebody knows", rows)
    lines, summary = (
        from_template(__package__, name, **given) for name in ("report.md.j2", "summary.txt.j2")
    )

    def of_log(log: knowledge.LinkedLog) -> dict[str, Any]:
        return {
            "log": log.name,
            "cases": log.traces.n_cases,
            "has_times": log.has_times,
            "has_resources": has_resources(log.traces),
            "sensitive": [n for k, n in enumerate(sensitive) if (log.labels[:, k] > 0).any()],
        }

    def of_risk(risk: Risk) -> dict[str, Any]:
        body = asdict(risk)
        return body | {"values": dict(zip(sensitive, body["values"], strict=True))}

    body = {
        "warning": INTERNAL,
        "publishable": False,
        "original": of_log(original),
        "releases": list(map(of_log, releases)),
        "settings": {
            "time_unit": settings.unit,
            "sizes": list(settings.sizes),
            "samples": settings.n_samples,
            "confidence_of_all_intervals": settings.confidence,
        },
        "attacks": [
            asdict(one) | {"before": of_risk(one.before), "after": list(map(of_risk, one.after))}
            for one in attacks
        ],
    }
    return body, lines, [chart], summary


# --- The logs of an attack: from files or releases, their sensitive values coded alike. -----------


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


def read_released(path: str, names: Sequence[str]) -> knowledge.LinkedLog:
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
        return knowledge.LinkedLog(
            path, traces, knowledge.no_values(traces), has_times(release.body["operations"])
        )
    source = EventSource(tuple(match_files([path])), SourceFormat(), ColumnMapping())
    by_file = [source.columns_of(file) for file in source.files]
    known = [n for n in names if all(columns is None or n in columns for columns in by_file)]
    traces = _read(source, {name: name for name in known})
    return knowledge.LinkedLog(path, traces, knowledge.no_values(traces))


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
    original: TraceBatch, releases: Sequence[knowledge.LinkedLog], sensitive: Sequence[str]
) -> tuple[knowledge.LinkedLog, list[knowledge.LinkedLog]]:
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
    return knowledge.LinkedLog("original", original, labels[0]), [
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
