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
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from tracecloak.anonymizers.noise.randomness import Randomness
from tracecloak.examination.linkage import knowledge
from tracecloak.examination.measure.behaviour_measures import has_resources
from tracecloak.examination.measure.registry import INTERNAL
from tracecloak.schemas.errors import UsageError
from tracecloak.schemas.statistics.background_knowledge import Kind, Perspective
from tracecloak.transforms.pages.page import Chart, from_template

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


# --- The report of linkage attacks, as JSON and as Markdown: for the operator, not private. -------


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

    original: knowledge.LinkedLog
    releases: Sequence[knowledge.LinkedLog]
    sensitive: Sequence[str]
    settings: knowledge.Settings
    attacks: Sequence[Linkage]

    def to_json(self) -> dict[str, Any]:
        """Returns the report as JSON values."""
        settings = self.settings
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
                asdict(attack)
                | {
                    "before": self._risk_json(attack.before),
                    "after": list(map(self._risk_json, attack.after)),
                }
                for attack in self.attacks
            ],
        }

    def _log_json(self, log: knowledge.LinkedLog) -> dict[str, Any]:
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
        body = asdict(risk)
        return body | {"values": dict(zip(self.sensitive, body["values"], strict=True))}

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
