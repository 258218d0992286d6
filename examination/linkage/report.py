"""The reports of linkage attacks on releases, and of attacks across those of a growing log.

As JSON and as Markdown. For the operator: not private.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from tracecloak.examination.linkage.growing import Correspondence, Correspondences, PairAttacks
from tracecloak.examination.linkage.knowledge import LinkedLog, Settings
from tracecloak.examination.linkage.run import SET_SIZES, Linkage, Risk
from tracecloak.examination.measure.perspectives import has_resources
from tracecloak.examination.measure.report_files import INTERNAL, renamed
from tracecloak.transforms.pages.document import Chart
from tracecloak.transforms.pages.text_templates import from_template

_HERE = "tracecloak.examination.linkage"
_KNOWS: dict[Correspondence, str] = {
    "forward": "that it is in both releases",
    "cross": "that it is in both releases",
    "backward": "that it is new in the later release",
    "either": "not whether it is new in the later release",
}
_SEARCHED: dict[Correspondence, str] = {
    "forward": "earlier",
    "cross": "later",
    "backward": "later",
    "either": "later",
}


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


@dataclass(frozen=True)
class GrowingReport:
    """All attacks across some releases of a growing log; not private.

    Attributes:
        n_cases: By release its path, its cases, and the cases of its log.
        settings: How the attacks were made.
        pairs: What they found, by earlier and later release.
    """

    n_cases: Sequence[tuple[str, int, int]]
    settings: Settings
    pairs: Sequence[PairAttacks]

    def to_json(self) -> dict[str, Any]:
        """Returns the report as JSON values."""
        settings = self.settings
        return {
            "warning": INTERNAL,
            "publishable": False,
            "settings": {
                "sizes": list(settings.sizes),
                "samples": settings.n_samples,
                "confidence": settings.confidence,
            },
            "releases": [
                {"log": name, "cases": n_released, "cases_of_original": n_cases}
                for name, n_released, n_cases in self.n_cases
            ],
            "pairs": [_pair_json(attacked) for attacked in self.pairs],
        }

    def summary_lines(self) -> Iterator[str]:
        """Yields of each attack the worst with the most knowledge, a sentence each."""
        largest = max(self.settings.sizes, default=0)
        for attacked in self.pairs:
            yield f"releases   {_names(attacked)}"
            for sentence in attacked.pair.supposed.sentences():
                yield f"           {sentence}"
            yield from (f"           {line}" for line in _remarks(attacked))
            for correspondence in _KNOWS:
                attacks = [
                    attack
                    for attack in attacked.attacks
                    if attack.correspondence == correspondence and attack.size == largest
                ]
                if attacks:
                    yield f"{correspondence:<10} {_sentence(max(attacks, key=_badness))}"

    def markdown_lines(self) -> list[str]:
        """Returns the report as Markdown, line by line."""
        given = {"report": self, "names": _names, "remarks": _remarks, "elements": _elements}
        return from_template(_HERE, "growing_report.md.j2", internal=INTERNAL, **given)

    def charts(self) -> list[Chart]:
        """Returns how often fewer than k cases are left, alone and with the other release."""
        several = len(self.pairs) > 1
        rows = [
            {
                "label": f"{attack.correspondence}, {attack.attack} with {attack.size}"
                + (f", {_names(attacked)}" if several else ""),
                "before": attack.alone.below_k.value,
                "after": attack.across.below_k.value,
            }
            for attacked in self.pairs
            for attack in attacked.attacks
        ]
        return [Chart("across", "How often fewer than k cases can be the victim's", rows)]


def _pair_json(attacked: PairAttacks) -> dict[str, Any]:
    pair, supposed = attacked.pair, attacked.pair.supposed
    names = {"n_victims": "victims", "is_exact": "exact"}
    names |= {"falls": "falls_below_k", "nobody": "nobody_left"}
    return {
        "earlier": pair.earlier.name,
        "later": pair.later.name,
        "supposed": list(supposed.sentences()),
        "events_exclude": supposed.is_traced,
        "times_compared": supposed.time_unit,
        "sensitive": list(supposed.sensitive),
        "cases_rewritten": attacked.n_rewritten,
        "attacks": [renamed(asdict(attack), **names) for attack in attacked.attacks],
    }


def _badness(attack: Correspondences) -> tuple[bool, float, float]:
    """Worst is what breaks a k that the release alone keeps, and then what breaks it most often."""
    keeps_alone = attack.alone.at_worst is not None and attack.alone.at_worst >= attack.k
    return keeps_alone and attack.falls.value > 0, attack.falls.value, attack.reduced.value


def _sentence(attack: Correspondences) -> str:
    what, how = _elements(attack)
    who = f"who knows {what} of a case{how}, and {_KNOWS[attack.correspondence]},"
    sentence = f"{attack.attack}: {who} "
    alone, across = attack.alone, attack.across
    if alone.at_worst is None or alone.median is None:
        return f"{sentence}finds no case that matches."
    sentence += (
        f"finds {_cases(alone.at_worst)} at worst in the {_SEARCHED[attack.correspondence]} "
        f"release alone (median {alone.median:,.0f}). "
    )
    if across.at_worst is None or across.median is None:
        return f"{sentence}With the other release none is left."
    return sentence + (
        f"With the other release {across.at_worst:,} at worst can be the one (median "
        f"{across.median:,.0f}); {attack.falls.percent} of the attacks fall below {attack.k:,} "
        "by that."
    )


def _cases(number: int) -> str:
    return f"{number:,} case{'' if number == 1 else 's'}"


def _elements(attack: Correspondences) -> tuple[str, str]:
    """What is known and how it is put together, such as "2 activities" and " as a set"."""
    names = {
        "activity": ("activity", "activities"),
        "resource": ("resource", "resources"),
        "activity_resource": ("activity with its resource", "activities with their resources"),
    }[attack.perspective]
    how = {
        "set": " as a set",
        "multiset": " as a multiset",
        "sequence": " in their order",
        "relative": " with their times",
    }[attack.kind]
    return (f"{attack.size} {names[attack.size != 1]}", how) if attack.size else ("nothing", "")


def _remarks(attacked: PairAttacks) -> Iterator[str]:
    supposed = attacked.pair.supposed
    if attacked.n_rewritten:
        yield (
            f"{attacked.n_rewritten:,} cases of the earlier log are not the beginning of theirs of "
            "the later one, as if events had come late: what is excluded can be wrong for them."
        )
    if attacked.without_times:
        yield "Times are not compared, as the releases do not have them to the same accuracy."
    if supposed.grows:
        yield (
            "Who does not know whether a case is new in the later release excludes nothing, as "
            "what is known of it may have happened since the earlier one."
        )
    if not supposed.is_traced and not supposed.sensitive:
        yield (
            "So nothing is excluded here. That proves nothing: who guesses how events were "
            "suppressed can exclude more, without being sure."
        )


def _names(attacked: PairAttacks) -> str:
    return f"{attacked.pair.earlier.name} and then {attacked.pair.later.name}"
