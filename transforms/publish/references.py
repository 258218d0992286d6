"""Epsilons of published releases, to judge one by: values as their publishers gave them."""

from __future__ import annotations

from dataclasses import dataclass

from tracecloak.schemas.published.manifest import ReleaseManifest


@dataclass(frozen=True)
class Reference:
    """A release whose epsilon is known.

    Attributes:
        epsilon: Its epsilon, in the publisher's definition.
        unit: What one was protected.
        release: What was released.
        source: Where the value was published.
        is_own: Whether it is the release in question.
    """

    epsilon: float
    unit: str
    release: str
    source: str
    is_own: bool = False


_PUBLISHED = (
    Reference(
        1,
        "person and day",
        "Wikimedia: page views by country and day",
        "Adeleye et al., Publishing Wikipedia usage data with strong privacy guarantees, 2023",
    ),
    Reference(
        2.64,
        "person and day",
        "Google: Community Mobility Reports",
        "Aktay et al., Google COVID-19 Community Mobility Reports: Anonymization Process "
        "Description, 2020",
    ),
    Reference(
        4,
        "person and day",
        "Apple: emoji that are popular (noise is added on the device)",
        "Apple, Differential Privacy Overview, 2017",
    ),
    Reference(
        9.98,
        "birth",
        "Israel's Ministry of Health: registry of live births of 2014",
        "Hod and Canetti, Differentially Private Release of Israel's National Registry of Live "
        "Births, 2024",
    ),
    Reference(
        17.14,
        "person",
        "U.S. Census Bureau: redistricting data of 2020, persons",
        "U.S. Census Bureau, Census Bureau Sets Key Parameters to Protect Privacy in 2020 Census "
        "Results, 9 June 2021",
    ),
)


def references_beside(manifest: ReleaseManifest) -> tuple[Reference, ...]:
    """Returns the published values in ascending order, with that of a release among them."""
    guarantee = manifest.guarantee
    if guarantee.epsilon is None:
        return _PUBLISHED
    ours = Reference(guarantee.epsilon, guarantee.unit, "this release", "this page", is_own=True)
    return tuple(sorted((*_PUBLISHED, ours), key=lambda reference: reference.epsilon))
