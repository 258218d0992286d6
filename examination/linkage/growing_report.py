"""The report of attacks across releases, as JSON and as Markdown. For the operator: not private."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tracecloak.examination.linkage.growing import (
    Correspondence,
    Correspondences,
    PairAttacks,
)
from tracecloak.examination.linkage.knowledge import Settings
from tracecloak.examination.measure.report_files import INTERNAL, write_all
from tracecloak.transforms.pages.document import Chart
from tracecloak.transforms.pages.text_templates import from_template

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


def write_growing_report(report: GrowingReport, path: Path) -> list[Path]:
    """Writes FILE.json, FILE.md and FILE.html; see `report_files.write_all`."""
    return write_all(path, to_json(report), markdown_lines(report), [_chart(report)])


def _chart(report: GrowingReport) -> Chart:
    """How often fewer than k cases are left, in one release alone and with the other one."""
    several = len(report.pairs) > 1
    rows = [
        {
            "label": f"{attack.correspondence}, {attack.attack} with {attack.size}"
            + (f", {_names(attacked)}" if several else ""),
            "before": attack.alone.below_k.value,
            "after": attack.across.below_k.value,
        }
        for attacked in report.pairs
        for attack in attacked.attacks
    ]
    return Chart("across", "How often fewer than k cases can be the victim's", rows)


def to_json(report: GrowingReport) -> dict[str, Any]:
    """Returns the report as JSON values."""
    settings = report.settings
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
            for name, n_released, n_cases in report.n_cases
        ],
        "pairs": [_pair_json(attacked) for attacked in report.pairs],
    }


def _pair_json(attacked: PairAttacks) -> dict[str, Any]:
    pair, supposed = attacked.pair, attacked.pair.supposed
    return {
        "earlier": pair.earlier.name,
        "later": pair.later.name,
        "supposed": list(supposed.sentences()),
        "events_exclude": supposed.is_traced,
        "times_compared": supposed.time_unit,
        "sensitive": list(supposed.sensitive),
        "cases_rewritten": attacked.n_rewritten,
        "attacks": [
            {
                "correspondence": attack.correspondence,
                "attack": attack.attack,
                "kind": attack.kind,
                "perspective": attack.perspective,
                "size": attack.size,
                "k": attack.k,
                "victims": attack.n_victims,
                "exact": attack.is_exact,
                "alone": asdict(attack.alone),
                "across": asdict(attack.across),
                "reduced": asdict(attack.reduced),
                "falls_below_k": asdict(attack.falls),
                "nobody_left": asdict(attack.nobody),
            }
            for attack in attacked.attacks
        ],
    }


def summary_lines(report: GrowingReport) -> Iterator[str]:
    """Yields the outcome in a few sentences: of each attack the worst with the most knowledge."""
    yield INTERNAL
    largest = max(report.settings.sizes, default=0)
    for attacked in report.pairs:
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


def markdown_lines(report: GrowingReport) -> list[str]:
    """Returns the report as Markdown, line by line."""
    return from_template(
        "tracecloak.examination.linkage",
        "growing_report.md.j2",
        report=report,
        internal=INTERNAL,
        names=_names,
        remarks=_remarks,
        elements=_elements,
    )
