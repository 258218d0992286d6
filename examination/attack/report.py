"""The report of an attack, as JSON and as Markdown. For the operator: not private."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tracecloak.anonymizers.accounting.composition import joint_sentence
from tracecloak.examination.attack.findings import (
    NO_BOUND,
    TELLING_VALUES,
    AttackReport,
    GuessFinding,
)
from tracecloak.examination.measure.report_files import INTERNAL, write_all
from tracecloak.transforms.pages.document import Chart
from tracecloak.transforms.pages.text_templates import from_template

_ADJACENCY = {"add_remove": "added or removed", "replace_one": "replaced by another"}


def write_report(report: AttackReport, path: Path) -> list[Path]:
    """Writes FILE.json, FILE.md and FILE.html; see `report_files.write_all`."""
    return write_all(path, to_json(report), markdown_lines(report), _charts(report))


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


def _charts(report: AttackReport) -> list[Chart]:
    rows = epsilons_of(to_json(report))
    return [Chart("attack", "What is claimed, accounted for and measured", rows)] if rows else []


def to_json(report: AttackReport) -> dict[str, Any]:
    """Returns the report as JSON values."""
    guarantee = report.guarantee
    support, crowds, reruns = report.support, report.crowds, report.reruns
    gain = None if reruns is None else reruns.gain
    return {
        "warning": INTERNAL,
        "publishable": False,
        "verdict": report.verdict,
        "is_refuted": report.is_refuted,
        "refutations": list(report.refutations),
        "method": report.method,
        "params": report.params,
        "claimed": {
            "kind": guarantee.kind,
            "epsilon": guarantee.epsilon,
            "delta": guarantee.delta,
            "unit": guarantee.unit,
            "adjacency": guarantee.adjacency,
            "claim": guarantee.claim,
        },
        "accounted_epsilon": report.accounted_epsilon,
        "audited": {
            "epsilon": report.audited_epsilon,
            "ratio_to_claimed": report.ratio,
            "largest_provable": report.largest_provable,
            "confidence": report.confidence,
            "pairs": [asdict(finding) for finding in report.pairs],
            "canaries": None if report.canaries is None else asdict(report.canaries),
            "difference_attack": None if report.difference is None else asdict(report.difference),
        },
        "log": {
            "cases": report.n_cases,
            "support": None if support is None else asdict(support),
            "crowd_sizes": None if crowds is None else asdict(crowds),
            "reruns": None
            if reruns is None
            else {
                "same_id_is_identical": reruns.is_identical,
                "other_ids_share_noise": reruns.is_reused,
                "values_that_tell": reruns.n_telling,
                "comparison": None if gain is None else asdict(gain),
            },
        },
        "spends": [spend.to_json() for spend in report.spends],
        "choices_paid_for": list(report.choices),
    }


def summary_lines(report: AttackReport) -> Iterator[str]:
    """Yields the outcome in a few lines."""
    yield INTERNAL
    yield f"claimed    {_claim(report)}"
    if report.accounted_epsilon is not None:
        yield f"accounted  epsilon {report.accounted_epsilon:.4f} at the claimed delta"
    if report.audited_epsilon > 0:
        share = "" if report.ratio is None else f", {report.ratio:.0%} of the claim"
        yield (
            f"audited    epsilon >= {report.audited_epsilon:.4f}{share} (wrong with probability at "
            f"most {1 - report.confidence:.0e})"
        )
    else:
        yield f"audited    {NO_BOUND}, which is no proof that there is none"
    n_releases = max((finding.n_releases for finding in report.pairs), default=0)
    yield (
        f"provable   epsilon {report.largest_provable:.3g} at most, by {n_releases:,} releases of "
        "each log of a pair, whatever the method does"
    )
    for guess in report.guesses:
        yield (
            f"difference {guess.asked}: {_share(guess.n_right_plain, guess)} right without noise, "
            f"{_share(guess.n_right, guess)} with, {_allowed(guess)} allowed by the claim"
        )
    yield f"verdict    {report.verdict}"


def _share(n: int, guess: GuessFinding) -> str:
    return f"{n / guess.n_games:.0%}"


def _allowed(guess: GuessFinding) -> str:
    return "any share" if guess.largest_share is None else f"{guess.largest_share:.1%}"


def _claim(report: AttackReport) -> str:
    guarantee = report.guarantee
    if guarantee.epsilon is None:
        return f"{guarantee.kind}, no finite epsilon per {guarantee.unit}"
    return (
        f"{guarantee.kind}, epsilon {guarantee.epsilon:g}, delta {guarantee.delta or 0:g}, per "
        f"{guarantee.unit} {_ADJACENCY[guarantee.adjacency]}"
    )


def markdown_lines(report: AttackReport) -> list[str]:
    """Returns the report as Markdown, line by line."""
    return from_template(
        "tracecloak.examination.attack",
        "report.md.j2",
        report=report,
        internal=INTERNAL,
        no_bound=NO_BOUND,
        n_telling=TELLING_VALUES,
        claim=_claim(report),
        share=_share,
        allowed=_allowed,
        joint_sentence=joint_sentence,
    )
