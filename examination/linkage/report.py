"""The report of linkage attacks, as JSON and as Markdown: for the operator, not private."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from tracecloak.examination.linkage.knowledge import LinkedLog, Settings
from tracecloak.examination.linkage.run import SET_SIZES, Linkage, Risk
from tracecloak.examination.measure.perspectives import has_resources
from tracecloak.examination.measure.report_files import INTERNAL, renamed
from tracecloak.transforms.pages.document import Chart
from tracecloak.transforms.pages.text_templates import from_template

_HERE = "tracecloak.examination.linkage"


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

    def to_json(self) -> dict[str, Any]:
        """Returns the report as JSON values."""
        settings = self.settings
        names = {"n_victims": "victims", "is_exact": "exact", "n_pieces": "pieces"}
        return {
            "warning": INTERNAL,
            "publishable": False,
            "original": self._log_json(self.original),
            "releases": list(map(self._log_json, self.releases)),
            "settings": {
                "time_unit": settings.unit,
                "sizes": list(settings.sizes),
                "samples": settings.n_samples,
                "confidence_of_all_intervals": settings.confidence,
            },
            "attacks": [
                renamed(asdict(attack), **names)
                | {
                    "before": self._risk_json(attack.before),
                    "after": list(map(self._risk_json, attack.after)),
                }
                for attack in self.attacks
            ],
        }

    def _log_json(self, log: LinkedLog) -> dict[str, Any]:
        return {
            "log": log.name,
            "cases": log.traces.n_cases,
            "has_times": log.has_times,
            "has_resources": has_resources(log.traces),
            "sensitive": [
                name for k, name in enumerate(self.sensitive) if (log.labels[:, k] > 0).any()
            ],
        }

    def _risk_json(self, risk: Risk) -> dict[str, Any]:
        body = renamed(asdict(risk), smallest="smallest_set")
        values = (v and {**v, "largest_confidence": v["largest"]} for v in body["values"])
        return body | {
            "set_sizes": dict(zip(_class_names(), body["set_sizes"], strict=True)),
            "values": dict(zip(self.sensitive, values, strict=True)),
        }

    def summary_lines(self) -> Iterator[str]:
        """Yields the outcome in a few lines: what the largest knowledge singles out."""
        largest = max(self.settings.sizes, default=0)
        attacks = [attack for attack in self.attacks if attack.size == largest]
        for number, log in enumerate(self.releases):
            worst = max(attacks, key=lambda attack: attack.after[number].singled_out.value)
            risk = worst.after[number]
            yield (
                f"linkage    {log.name}: {worst.attack} with {largest} elements singles out "
                f"{risk.singled_out.percent} of the cases, before the release "
                f"{worst.before.singled_out.percent}"
            )

    def markdown_lines(self) -> list[str]:
        """Returns the report as Markdown, line by line."""
        given = {"report": self, "internal": INTERNAL, "has_resources": has_resources}
        return from_template(_HERE, "report.md.j2", **given)

    def charts(self) -> list[Chart]:
        """Returns how often exactly one case matches, before and in each release."""
        several = len(self.releases) > 1
        rows = [
            {
                "label": f"{attack.attack} with {attack.size}{f', {risk.log}' if several else ''}",
                "before": attack.before.singled_out.value,
                "after": risk.singled_out.value,
            }
            for attack in self.attacks
            for risk in attack.after
        ]
        title = "How often exactly one case matches what somebody knows"
        return [Chart("linkage", title, rows)]


def _class_names() -> list[str]:
    """The classes of SET_SIZES: "0", "1", "2-4", and so on."""
    lasts = [following - 1 for following in SET_SIZES[1:]]
    names = [
        str(first) if first == last else f"{first}-{last}"
        for first, last in zip(SET_SIZES, lasts, strict=False)
    ]
    return [*names, f"{SET_SIZES[-1]} or more"]
