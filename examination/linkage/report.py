"""The report of linkage attacks, as JSON and as Markdown. For the operator: not private."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tracecloak.examination.linkage.knowledge import LinkedLog, Settings
from tracecloak.examination.linkage.run import SET_SIZES, Linkage, Risk, ValueRisk
from tracecloak.examination.measure.perspectives import has_resources
from tracecloak.examination.measure.report_files import INTERNAL, write_all
from tracecloak.transforms.pages.document import Chart
from tracecloak.transforms.pages.text_templates import from_template


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
        "singled_out": asdict(risk.singled_out),
        "singled_out_at_worst": risk.singled_out_at_worst,
        "picked": asdict(risk.picked),
        "smallest_set": risk.smallest,
        "set_sizes": {
            name: asdict(estimate)
            for name, estimate in zip(_class_names(), risk.set_sizes, strict=True)
        },
        "values": {
            name: None if value is None else _value_json(value)
            for name, value in zip(sensitive, risk.values, strict=True)
        },
    }


def _value_json(value: ValueRisk) -> dict[str, Any]:
    shown = asdict(value)
    return {**shown, "largest_confidence": shown.pop("largest")}


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
            f"{risk.singled_out.percent} of the cases, before the release "
            f"{worst.before.singled_out.percent}"
        )


def markdown_lines(report: LinkageReport) -> list[str]:
    """Returns the report as Markdown, line by line."""
    return from_template(
        "tracecloak.examination.linkage",
        "report.md.j2",
        report=report,
        internal=INTERNAL,
        has_resources=has_resources,
    )
