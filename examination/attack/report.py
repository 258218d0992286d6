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
    DifferenceFinding,
    GuessFinding,
    PairFinding,
)
from tracecloak.examination.measure.report_files import INTERNAL, write_all
from tracecloak.transforms.pages.document import Chart

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


def markdown_lines(report: AttackReport) -> Iterator[str]:
    """Yields the report as Markdown, a line at a time."""
    guarantee = report.guarantee
    yield INTERNAL
    yield ""
    yield f"# Attack on {report.method}"
    yield ""
    yield f"**Verdict:** {report.verdict}"
    yield ""
    yield "## Claimed, accounted, audited"
    yield ""
    yield f"- Claimed: {_claim(report)}. {guarantee.claim}"
    accounted = report.accounted_epsilon
    yield (
        "- Accounted: "
        + ("none" if accounted is None else f"epsilon {accounted:.6g} at the claimed delta")
    )
    share = "" if report.ratio is None else f", {report.ratio:.1%} of the claim"
    audited = (
        f"epsilon >= {report.audited_epsilon:.4f}{share}"
        if report.audited_epsilon > 0
        else NO_BOUND
    )
    yield (
        f"- Audited: {audited}. With probability {report.confidence:.9g} no bound below exceeds "
        "the truth. A small bound, or none, does not prove that epsilon is small."
    )
    yield (
        f"- Provable: epsilon {report.largest_provable:.3g} at most, by the releases of the pairs "
        "below, if an event is in all of those of one log that are counted and in none of the "
        "other's. No larger claim can be refuted by so many releases of the pairs, however false."
    )
    yield ""
    yield "## Pairs of logs"
    yield ""
    yield (
        "Both logs of a pair differ in one unit, and each is released many times. An event that is "
        "seen more often in the releases of one log than in those of the other proves a bound of "
        "epsilon. Where no bound stands, no event that was looked at did so often enough."
    )
    yield ""
    yield "| logs | looked at | releases of each | epsilon >= | provable at most | told apart by |"
    yield "|---|---|---:|---:|---:|---|"
    for finding in report.pairs:
        yield (
            f"| {finding.what} | {finding.looked_at} | {finding.n_releases:,} | "
            f"{_bound(finding.epsilon)} | {finding.largest_provable:.2f} | {_event(finding)} |"
        )
    yield ""
    if report.difference is not None:
        yield from _difference_lines(report.difference)
        yield ""
    yield f"## Your log ({report.n_cases:,} cases)"
    yield ""
    yield from _own_log_lines(report)
    yield ""
    yield "## What was paid for"
    yield ""
    for spend in report.spends:
        text = spend.to_json()
        yield f"- {spend.what}: epsilon {text['epsilon']}, delta {text['delta']}"
        if spend.blocks:
            yield f"  {joint_sentence(text)}"
    if not report.spends:
        yield "- Nothing: no part has a finite epsilon."
    chosen = ", ".join(report.choices) or "none"
    yield f"- Chosen on the log and paid for: {chosen}"
    yield ""
    yield "## Parameters"
    yield ""
    for name, value in report.params.items():
        yield f"- {name} = {value}"


def _bound(epsilon: float) -> str:
    """A lower bound as a cell of a table; one of 0 says nothing, for no epsilon is less."""
    return f"{epsilon:.4f}" if epsilon > 0 else "no bound"


def _event(finding: PairFinding) -> str:
    if finding.epsilon > 0:
        return finding.event
    if finding.largest_provable > 0:
        return "no event that was looked at"
    return "too few releases to prove any bound"


def _difference_lines(difference: DifferenceFinding) -> Iterator[str]:
    yield "## Difference attack"
    yield ""
    yield (
        "Somebody sees a tree of your log without one case and another tree with a case in its "
        "place, and guesses from their difference: from activities, starts, ends and pairs that "
        f"only one of them allows. {difference.n_exposed:,} cases of your log take a step that no "
        "other case takes; where there are any, these are attacked. In the long run no attacker at "
        "all is right more often than the claim allows, if it is true."
    )
    yield ""
    if not difference.guesses:
        yield "The log has too little in it for a question."
        return
    yield (
        "| question | games | by chance | right without noise | right with this method | "
        "allowed by the claim | epsilon >= |"
    )
    yield "|---|---:|---:|---:|---:|---:|---:|"
    for guess in difference.guesses:
        yield (
            f"| {guess.asked} | {guess.n_games} | {1 / guess.n_candidates:.0%} | "
            f"{guess.n_right_plain} ({_share(guess.n_right_plain, guess)}) | "
            f"{guess.n_right} ({_share(guess.n_right, guess)}) | {_allowed(guess)} | "
            f"{_bound(guess.epsilon)} |"
        )


def _own_log_lines(report: AttackReport) -> Iterator[str]:
    support, crowds, reruns = report.support, report.crowds, report.reruns
    if support is None:
        yield "- No variants are released, so none of a single case can come out."
    else:
        yield (
            f"- Variants of a single case: {support.n_released_singletons} of "
            f"{support.n_singletons_in_input} came out; delta allows "
            f"{support.expected_at_most:.3g} on average (p-value {support.p_value:.3g} if "
            "each is decided by itself)."
        )
    if crowds is not None:
        yield (
            "- Released variants by the number of cases they are said to have: "
            f"{crowds.of_1} of one, {crowds.of_2_to_4} of 2-4, {crowds.of_5_to_9} of 5-9, "
            f"{crowds.of_10_or_more} of 10 or more."
        )
    if report.canaries is not None:
        c = report.canaries
        yield (
            f"- Canaries: {c.n_right} of {c.n_canaries} coins guessed right in {c.n_runs} runs, "
            + (
                f"which proves epsilon >= {c.epsilon:.4f}."
                if c.epsilon > 0
                else "which may be luck and proves no bound."
            )
        )
    if reruns is not None:
        same = "gave the same bytes" if reruns.is_identical else "DIFFER"
        yield f"- Two runs of one release id under one key {same}."
        if reruns.gain is None or reruns.n_telling < TELLING_VALUES:
            yield "- Noise under other release ids: too few values of it are seen to compare."
        else:
            shared = "SHARE noise" if reruns.is_reused else "share no noise that can be told"
            yield (
                f"- Releases of {reruns.gain.n_releases} other ids {shared}: "
                f"{reruns.gain.n_values} values, largest correlation "
                f"{reruns.gain.largest_correlation:.3f}."
            )
