"""The report of linkage attacks, as JSON and as Markdown. For the operator: not private."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tracecloak.examination.linkage.knowledge import Estimate, LinkedLog, Settings
from tracecloak.examination.linkage.run import SET_SIZES, Linkage, Risk, ValueRisk
from tracecloak.examination.measure.perspectives import has_resources
from tracecloak.examination.measure.report_files import INTERNAL, write_all
from tracecloak.transforms.pages.document import Chart


@dataclass(frozen=True)
class LinkageReport:
    """All linkage attacks on some releases of one log; not private.

    Attributes:
        original: The log of the victims.
        releases: The released logs.
        sensitive: Names of the sensitive attributes.
        settings: How the attacks were made.
        attacks: What they found.
    """

    original: LinkedLog
    releases: Sequence[LinkedLog]
    sensitive: Sequence[str]
    settings: Settings
    attacks: Sequence[Linkage]


def write_report(report: LinkageReport, path: Path) -> list[Path]:
    """Writes FILE.json, FILE.md and FILE.html; see `report_files.write_all`."""
    return write_all(path, to_json(report), markdown_lines(report), [_chart(report)])


def _chart(report: LinkageReport) -> Chart:
    """How often exactly one case matches, before and in each release."""
    several = len(report.releases) > 1
    rows = [
        {
            "label": f"{attack.attack} with {attack.size}{f', {risk.log}' if several else ''}",
            "before": attack.before.singled_out.value,
            "after": risk.singled_out.value,
        }
        for attack in report.attacks
        for risk in attack.after
    ]
    return Chart("linkage", "How often exactly one case matches what somebody knows", rows)


def to_json(report: LinkageReport) -> dict[str, Any]:
    """Returns the report as JSON values."""
    settings = report.settings
    return {
        "warning": INTERNAL,
        "publishable": False,
        "original": _log_json(report.original, report),
        "releases": [_log_json(log, report) for log in report.releases],
        "settings": {
            "time_unit": settings.unit,
            "sizes": list(settings.sizes),
            "samples": settings.n_samples,
            "confidence_of_all_intervals": settings.confidence,
        },
        "attacks": [
            {
                "attack": attack.attack,
                "kind": attack.kind,
                "perspective": attack.perspective,
                "size": attack.size,
                "victims": attack.n_victims,
                "exact": attack.is_exact,
                "pieces": attack.n_pieces,
                "before": _risk_json(attack.before, report.sensitive),
                "after": [_risk_json(risk, report.sensitive) for risk in attack.after],
            }
            for attack in report.attacks
        ],
    }


def _log_json(log: LinkedLog, report: LinkageReport) -> dict[str, Any]:
    return {
        "log": log.name,
        "cases": log.traces.n_cases,
        "has_times": log.has_times,
        "has_resources": has_resources(log.traces),
        "sensitive": [
            name for k, name in enumerate(report.sensitive) if (log.labels[:, k] > 0).any()
        ],
    }


def _risk_json(risk: Risk, sensitive: Sequence[str]) -> dict[str, Any]:
    return {
        "log": risk.log,
        "known_as": risk.known_as,
        "singled_out": _estimate_json(risk.singled_out),
        "singled_out_at_worst": risk.singled_out_at_worst,
        "picked": _estimate_json(risk.picked),
        "smallest_set": risk.smallest,
        "set_sizes": {
            name: _estimate_json(estimate)
            for name, estimate in zip(_class_names(), risk.set_sizes, strict=True)
        },
        "values": {
            name: None if value is None else _value_json(value)
            for name, value in zip(sensitive, risk.values, strict=True)
        },
    }


def _value_json(value: ValueRisk) -> dict[str, Any]:
    return {
        "confidence": _estimate_json(value.confidence),
        "above_half": _estimate_json(value.above_half),
        "certain": _estimate_json(value.certain),
        "true_value": _estimate_json(value.true_value),
        "largest_confidence": value.largest,
    }


def _estimate_json(estimate: Estimate) -> dict[str, float]:
    return {"value": estimate.value, "low": estimate.low, "high": estimate.high}


def _class_names() -> list[str]:
    """The classes of SET_SIZES: "0", "1", "2-4", and so on."""
    lasts = [following - 1 for following in SET_SIZES[1:]]
    names = [
        str(first) if first == last else f"{first}-{last}"
        for first, last in zip(SET_SIZES, lasts, strict=False)
    ]
    return [*names, f"{SET_SIZES[-1]} or more"]


def summary_lines(report: LinkageReport) -> Iterator[str]:
    """Yields the outcome in a few lines: what the largest knowledge singles out."""
    yield INTERNAL
    largest = max(report.settings.sizes, default=0)
    attacks = [attack for attack in report.attacks if attack.size == largest]
    for number, log in enumerate(report.releases):
        worst = max(attacks, key=lambda attack: attack.after[number].singled_out.value)
        risk = worst.after[number]
        yield (
            f"linkage    {log.name}: {worst.attack} with {largest} elements singles out "
            f"{_percent(risk.singled_out)} of the cases, before the release "
            f"{_percent(worst.before.singled_out)}"
        )


def markdown_lines(report: LinkageReport) -> Iterator[str]:
    """Yields the report as Markdown, a line at a time."""
    settings = report.settings
    yield INTERNAL
    yield ""
    yield f"# Linkage attacks on a log of {report.original.traces.n_cases:,} cases"
    yield ""
    yield (
        "Somebody knows some elements of a random case of the original, any part of that size as "
        "likely as another, and looks for the cases that match: in the original (before), and in "
        f"each release (after). Relative times are known to the {settings.unit[:-1]}. Shares are "
        "exact, or stand before an interval in brackets; with probability "
        f"{settings.confidence:g} all intervals of this report are right."
    )
    yield ""
    yield (
        "That one released case matches does not make it the victim's: a method that draws new "
        "cases can match by chance. What is learnt of sensitive values counts in any case."
    )
    yield ""
    for log in (report.original, *report.releases):
        parts = [f"{log.traces.n_cases:,} cases"]
        parts += [] if log.has_times else ["no times"]
        parts += ["resources"] if has_resources(log.traces) else []
        yield f"- {log.name}: {', '.join(parts)}"
    attacks = dict.fromkeys(linkage.attack for linkage in report.attacks)
    for attack in attacks:
        linkages = [linkage for linkage in report.attacks if linkage.attack == attack]
        first = linkages[0]
        perspective = first.perspective.replace("_", " and ")
        yield ""
        yield f"## {attack}: {first.kind} of {perspective} ({first.n_victims:,} victims)"
        yield ""
        heads = ["known", "log", "matched by none", "by one", "by one at worst", "by 2 to 4"]
        heads += ["smallest set", "chance to pick"]
        for name in report.sensitive:
            heads += [f"{name}: confidence", "all alike", "true value"]
        yield f"| {' | '.join(heads)} |"
        yield f"|---:|---|{'---:|' * (len(heads) - 2)}"
        for linkage in linkages:
            for risk in (linkage.before, *linkage.after):
                yield _row(linkage, risk)


def _row(linkage: Linkage, risk: Risk) -> str:
    worst, smallest = risk.singled_out_at_worst, risk.smallest
    cells = [
        str(linkage.size),
        risk.log if risk.known_as == linkage.before.known_as else f"{risk.log} ({risk.known_as})",
        *(_percent(risk.set_sizes[i]) for i in (0, 1)),
        "" if worst is None else f"{worst:.1%}",
        _percent(risk.set_sizes[2]),
        "" if smallest is None else f"{smallest:,}",
        _percent(risk.picked),
    ]
    for value in risk.values:
        known = () if value is None else (value.confidence, value.certain, value.true_value)
        cells += map(_percent, known) if known else ["", "", ""]
    return f"| {' | '.join(cells)} |"


def _percent(estimate: Estimate) -> str:
    if estimate.low == estimate.high:
        return f"{estimate.value:.1%}"
    return f"{estimate.value:.1%} [{estimate.low:.1%}, {estimate.high:.1%}]"
