"""What an attack found, and the report of it. For the operator only: not private."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from tracecloak.anonymizers.accounting.composition import Spend, joint_sentence
from tracecloak.examination.audit.attacks import CrowdSizes, SupportFinding
from tracecloak.examination.measure.report_files import INTERNAL
from tracecloak.schemas.published.guarantee import Guarantee
from tracecloak.transforms.pages.document import Chart
from tracecloak.transforms.pages.text_templates import from_template

NO_BOUND = "the attack proved no epsilon above 0"
_ADJACENCY = {"add_remove": "added or removed", "replace_one": "replaced by another"}


@dataclass(frozen=True)
class PairFinding:
    """What the releases of one pair of logs prove.

    Attributes:
        what: The two logs, in words.
        looked_at: "noisy sums", before they are made a graph or a log is drawn from them, or
            "release".
        n_releases: Of each of the two logs.
        epsilon: The lower bound, with the claimed delta.
        largest_provable: What so many releases could prove at most.
        event: What told the logs apart best; of no meaning where `epsilon` is 0.
        confidence: Of this bound alone.
        is_reached: Whether any number of what the unit did came out, be it in one release.
    """

    what: str
    looked_at: str
    n_releases: int
    epsilon: float
    largest_provable: float
    event: str
    confidence: float
    is_reached: bool


@dataclass(frozen=True)
class CanaryFinding:
    """Guesses about cases that a fair coin put into the operator's log.

    Attributes:
        n_runs: Releases, each with canaries and coins of its own.
        n_canaries: Of all runs; a canary is in one of them only, so they count together.
        n_right: Coins guessed right.
        epsilon: The lower bound.
    """

    n_runs: int
    n_canaries: int
    n_right: int
    epsilon: float


@dataclass(frozen=True)
class AttackReport:
    """All findings about one configuration; not private.

    Attributes:
        method: Its name.
        params: The parameters in effect.
        guarantee: What is claimed.
        spends: The parts of the claim.
        choices: What is chosen on the log and paid for, by the names of the parts.
        accounted_epsilon: What the parts keep together at the claimed delta, or None.
        confidence: With which no bound of this report exceeds the truth.
        pairs: Lower bounds by pairs of logs.
        canaries: None if there was no room for any.
        support: None if no variants are released.
        crowds: Likewise.
        n_cases: Of the operator's log.
    """

    method: str
    params: dict[str, Any]
    guarantee: Guarantee
    spends: tuple[Spend, ...]
    choices: tuple[str, ...]
    accounted_epsilon: float | None
    confidence: float
    pairs: tuple[PairFinding, ...]
    canaries: CanaryFinding | None
    support: SupportFinding | None
    crowds: CrowdSizes | None
    n_cases: int

    @property
    def audited_epsilon(self) -> float:
        """The largest lower bound."""
        bounds = [finding.epsilon for finding in self.pairs]
        if self.canaries is not None:
            bounds.append(self.canaries.epsilon)
        return max(bounds, default=0.0)

    @property
    def largest_provable(self) -> float:
        """The largest bound that releases of the pairs can prove, whatever the method does."""
        return max((finding.largest_provable for finding in self.pairs), default=0.0)

    @property
    def ratio(self) -> float | None:
        """The audited epsilon as a share of the claimed one; None without a finite claim."""
        claimed = self.guarantee.epsilon
        return None if claimed is None else self.audited_epsilon / claimed

    @property
    def refutations(self) -> tuple[str, ...]:
        """Why the claimed epsilon is false, a sentence each; none if there is no such claim."""
        claimed = self.guarantee.epsilon
        if claimed is None:
            return ()
        reasons = [
            f"{finding.what}: {finding.event} proves epsilon >= {finding.epsilon:.3f}"
            for finding in self.pairs
            if finding.epsilon > claimed
        ]
        if self.canaries is not None and self.canaries.epsilon > claimed:
            reasons.append(f"canaries prove epsilon >= {self.canaries.epsilon:.3f}")
        return tuple(reasons)

    @property
    def is_refuted(self) -> bool:
        """Whether a method that claims a rigorous guarantee does not keep it."""
        return self.guarantee.kind == "rigorous" and bool(self.refutations)

    @property
    def verdict(self) -> str:
        """The outcome in a sentence."""
        claimed = self.guarantee.epsilon
        if self.refutations:
            return f"the claim is false: {'; '.join(self.refutations)}"
        if claimed is not None and not any(finding.is_reached for finding in self.pairs):
            return (
                "undecided: no number of what the units of the pairs of logs did came out in any "
                "release, so what the method counts was not reached; give it parameters that "
                "count cases of a few declared activities"
            )
        if claimed is not None:
            # Where so few releases can refute nothing, agreement says nothing.
            could = claimed < self.largest_provable
            return (
                f"{'consistent with the claim' if could else 'undecided'}: epsilon {claimed:g} is "
                f"claimed, {self._proved}, and so many releases of the pairs of logs can prove "
                f"{self.largest_provable:.3g} at most"
            )
        support = self.support
        came_out = (
            ""
            if support is None
            else f", and {support.n_released_singletons} of {support.n_singletons_in_input} "
            "variants of a single case came out"
        )
        return (
            f"no finite epsilon is claimed by this program: {self._proved}{came_out}. The paper "
            f"claims: {self.guarantee.claim}"
        )

    @property
    def _proved(self) -> str:
        bound = self.audited_epsilon
        return f"the attack proved at least {bound:.3f}" if bound > 0 else NO_BOUND

    @property
    def claim(self) -> str:
        """What is claimed, in short."""
        guarantee = self.guarantee
        if guarantee.epsilon is None:
            return f"{guarantee.kind}, no finite epsilon per {guarantee.unit}"
        return (
            f"{guarantee.kind}, epsilon {guarantee.epsilon:g}, delta {guarantee.delta or 0:g}, per "
            f"{guarantee.unit} {_ADJACENCY[guarantee.adjacency]}"
        )

    def to_json(self) -> dict[str, Any]:
        """Returns the report as JSON values."""
        claimed = ("kind", "epsilon", "delta", "unit", "adjacency", "claim")
        return {
            "warning": INTERNAL,
            "publishable": False,
            "verdict": self.verdict,
            "is_refuted": self.is_refuted,
            "refutations": list(self.refutations),
            "method": self.method,
            "params": self.params,
            "claimed": {name: getattr(self.guarantee, name) for name in claimed},
            "accounted_epsilon": self.accounted_epsilon,
            "audited": {
                "epsilon": self.audited_epsilon,
                "ratio_to_claimed": self.ratio,
                "largest_provable": self.largest_provable,
                "confidence": self.confidence,
                "pairs": list(map(asdict, self.pairs)),
                "canaries": _json(self.canaries),
            },
            "log": {
                "cases": self.n_cases,
                "support": _json(self.support),
                "crowd_sizes": _json(self.crowds),
            },
            "spends": [spend.to_json() for spend in self.spends],
            "choices_paid_for": list(self.choices),
        }

    def charts(self) -> list[Chart]:
        """Returns the picture of the claimed, accounted and measured epsilon."""
        rows = epsilons_of(self.to_json())
        title = "What is claimed, accounted for and measured"
        return [Chart("attack", title, rows)] if rows else []

    def summary_lines(self) -> Iterator[str]:
        """Yields the outcome in a few lines."""
        yield f"claimed    {self.claim}"
        if self.accounted_epsilon is not None:
            yield f"accounted  epsilon {self.accounted_epsilon:.4f} at the claimed delta"
        if self.audited_epsilon > 0:
            share = "" if self.ratio is None else f", {self.ratio:.0%} of the claim"
            yield (
                f"audited    epsilon >= {self.audited_epsilon:.4f}{share} (wrong with probability "
                f"at most {1 - self.confidence:.0e})"
            )
        else:
            yield f"audited    {NO_BOUND}, which is no proof that there is none"
        n_releases = max((finding.n_releases for finding in self.pairs), default=0)
        yield (
            f"provable   epsilon {self.largest_provable:.3g} at most, by {n_releases:,} releases "
            "of each log of a pair, whatever the method does"
        )
        yield f"verdict    {self.verdict}"

    def markdown_lines(self) -> list[str]:
        """Returns the report as Markdown, line by line."""
        return from_template(
            "tracecloak.examination.attack",
            "report.md.j2",
            report=self,
            internal=INTERNAL,
            no_bound=NO_BOUND,
            joint_sentence=joint_sentence,
        )


def _json(found: Any) -> dict[str, Any] | None:
    return None if found is None else asdict(found)


def epsilons_of(body: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Returns the claimed, the accounted and the measured epsilon of a report, those there are.

    Args:
        body: See `to_json`.
    """
    epsilons = (
        ("claimed", body.get("claimed", {}).get("epsilon")),
        ("accounted for", body.get("accounted_epsilon")),
        ("measured, at least", body.get("audited", {}).get("epsilon")),
    )
    return [{"name": n, "epsilon": round(float(v), 3)} for n, v in epsilons if v is not None]
