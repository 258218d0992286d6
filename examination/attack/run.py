"""`tracecloak attack config`: what an attacker can tell from releases of one configuration.

Releases of pairs of logs that differ in one unit are made by the thousand, under fresh keys, and a
lower bound of epsilon is proved from what tells them apart. Beside it: canaries in the operator's
log, lone variants that come out, and the crowds that released cases hide in. A finding is a fact
about the code that ran; that nothing is found proves nothing. All of it is computed on raw data and
is for the operator only.
"""

from __future__ import annotations

import logging
import math
import secrets
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from scipy import stats

from tracecloak.anonymizers.accounting.composed import composed_epsilon
from tracecloak.anonymizers.accounting.composition import Spend, joint_sentence
from tracecloak.anonymizers.contract.method import Anonymizer
from tracecloak.anonymizers.noise.randomness import ReleaseKey
from tracecloak.examination.attack import releases
from tracecloak.examination.attack.bounds import (
    clopper_pearson,
    epsilon_lower_bound,
    one_run_epsilon,
)
from tracecloak.examination.attack.neighbours import (
    Pair,
    canaries,
    pairs_of_log,
    synthetic_pairs,
    variant_counts,
    with_cases,
)
from tracecloak.examination.measure.registry import INTERNAL
from tracecloak.pipelines.configuration.config import ReleaseConfig
from tracecloak.pipelines.configuration.plan import resolve, source_of
from tracecloak.pipelines.configuration.shared_keys import require_files
from tracecloak.schemas.errors import check_least
from tracecloak.schemas.events.traces import TraceBatch
from tracecloak.schemas.published.figures import Key
from tracecloak.transforms.pages.page import Chart, from_template

# --- Attacks on releases that count: lone cases that came out, and the crowds of the others. ------
# Each compares releases with what a mechanism that keeps its promise may show, or counts whom a
# release singles out. The lower bounds of epsilon are in `examination.attack.bounds`.


def support_attack(
    counts: Mapping[releases.Variant, int], released: Iterable[releases.Variant], delta: float
) -> dict[str, float]:
    """Looks for the variants of one case in a release.

    A mechanism that never releases a variant that is not in its input must keep a variant of one
    case back with probability 1 - delta, whatever its epsilon: without the case it cannot come out
    at all. The p-value is exact for a mechanism that decides on each variant by itself; it says
    nothing about one that invents variants.

    Args:
        counts: Cases of each variant in the input.
        released: The variants that were released, whatever their count.
        delta: In [0, 1].

    Returns:
        How many variants one case alone follows; how many of them were released, and how many may
        be on the mean; and the probability of at least as many if each is released with probability
        delta.
    """
    singletons = {variant for variant, count in counts.items() if count == 1}
    n_released = len(singletons.intersection(released))
    return {
        "n_singletons_in_input": len(singletons),
        "n_released_singletons": n_released,
        "expected_at_most": delta * len(singletons),
        "p_value": float(stats.binom.sf(n_released - 1, len(singletons), delta)),
    }


def crowd_sizes(counts: np.ndarray) -> dict[str, int]:
    """Returns how many released variants have crowds of a size that a case of theirs hides in.

    Args:
        counts: int64[n_variants], released cases of each; variants without a case are left out.
    """
    ends = np.searchsorted(np.sort(counts), [1, 2, 5, 10])
    sizes = np.diff(np.append(ends, len(counts))).tolist()
    return dict(zip(("of_1", "of_2_to_4", "of_5_to_9", "of_10_or_more"), sizes, strict=True))


# --- What an attack found, and the report of it. For the operator only: not private. --------------


_ROOM = "tracecloak.examination.attack"
_CLAIMED = ("kind", "epsilon", "delta", "unit", "adjacency", "claim")


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


def texts_of(body: Mapping[str, Any]) -> tuple[list[str], list[Chart], list[str]]:
    """Returns a report as Markdown, its picture, and the outcome in a few lines.

    Args:
        body: See `attack`.
    """
    given = {
        "report": body,
        "internal": INTERNAL,
        "joint_sentence": joint_sentence,
    }
    rows, title = epsilons_of(body), "What is claimed, accounted for and measured"
    charts = [Chart("attack", title, rows)] if rows else []
    lines, summary = (
        from_template(_ROOM, name, **given) for name in ("report.md.j2", "summary.txt.j2")
    )
    return lines, charts, summary


def epsilons_of(body: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Returns the claimed, the accounted and the measured epsilon of a report, those there are.

    Args:
        body: See `attack`.
    """
    epsilons = (
        ("claimed", body.get("claimed", {}).get("epsilon")),
        ("accounted for", body.get("accounted_epsilon")),
        ("measured, at least", body.get("audited", {}).get("epsilon")),
    )
    return [{"name": n, "epsilon": round(float(v), 3)} for n, v in epsilons if v is not None]


# --- `tracecloak attack config`: what an attacker can tell from releases of one configuration. ----


_LOG = logging.getLogger("tracecloak")
DEFAULT_RELEASES = 20_000
DEFAULT_CONFIDENCE = 1 - 1e-6
# Seconds that the releases of one log of a pair may take; then fewer are made.
DEFAULT_SECONDS = 30.0
_FEWEST_RELEASES = 16
_TIMED_RELEASES = 5
_N_CANARIES = 100
_N_CANARY_RUNS = 5


def attack_configuration(
    config: ReleaseConfig, n_releases: int = DEFAULT_RELEASES
) -> dict[str, Any]:
    """Reads the log of a configuration and audits its method; see `attack`.

    Malformed records are left out, as in a release.

    Raises:
        UsageError: An input is not there, or is asked for, or `n_releases` is too small.
        InputSchemaError: An input cannot be read.
    """
    require_files(config.query)
    plan = resolve(config).of_named_window()
    log = source_of(plan).log(plan.bounds.max_cases_per_individual is not None)
    return attack(plan.method, plan.params, log if log.n_cases else None, n_releases)


def attack(
    method: Anonymizer,
    params: Any,
    log: TraceBatch | None,
    n_releases: int = DEFAULT_RELEASES,
    confidence: float = DEFAULT_CONFIDENCE,
    seconds: float = DEFAULT_SECONDS,
    keys: Iterator[ReleaseKey] | None = None,
) -> dict[str, Any]:
    """Audits one configuration, on pairs of logs made up for it and on a log.

    Args:
        method: The method.
        params: Its parameters.
        log: The operator's, with individuals where the method bounds them; None: it has no case.
        n_releases: Of each log of a pair, where time allows.
        confidence: Probability at least that no bound exceeds the truth.
        seconds: That the releases of one log may take.
        keys: Fresh ones; by default from the operating system.

    Returns:
        JSON values, not private. `verdict`: the outcome in a sentence; `is_refuted`: whether a
        method that claims a rigorous guarantee does not keep it, and `refutations`: why, a sentence
        each; what is `claimed`; `accounted_epsilon`: what the parts keep together at the claimed
        delta, or None; `audited`: the largest lower bound of `epsilon`, as a share of the claimed
        one, the largest that the releases of the pairs can prove, the `confidence` with which no
        bound exceeds the truth, the bounds by `pairs` (`PairFinding`), and how many coins of how
        many `canaries` were guessed right; of the operator's `log` its cases, and where variants
        are released, `support_attack` and `crowd_sizes`; the parts of the claim (`spends`); and
        what is chosen on the log and paid for.

    Raises:
        UsageError: There are fewer than 16 releases, or the log cannot be bounded as the method
            asks.
    """
    check_least(_FEWEST_RELEASES, releases=n_releases)
    keys = releases.fresh_keys() if keys is None else keys
    pairs = synthetic_pairs(method, params)
    if log is not None:
        pairs += pairs_of_log(log, method, params)
    # What is released follows from the sums: it is looked at more briefly.
    views = {True: 1.0, False: 0.1} if releases.has_sums_to_see(method) else {False: 1.0}
    # One more for the canaries; every bound may be wrong with an equal part of what is left.
    n_bounds = len(pairs) * len(views) + 1
    each = 1 - (1 - confidence) / n_bounds
    guarantee = method.guarantee(params)
    delta = guarantee.delta or 0.0
    findings = []
    for number, pair in enumerate(pairs):
        progress = {"stage": "pairs", "done": number, "total": len(pairs)}
        _LOG.info("attack: %s (pair %d of %d)", pair.what, number + 1, len(pairs), extra=progress)
        findings += [
            audit_pair(
                pair, method, params, delta, n_releases, each, share * seconds, keys, shows_sums
            )
            for shows_sums, share in views.items()
        ]
    spends = method.spends(params)
    last = method.rounds(params)[-1]
    release = None if log is None else releases.Releases(log, method, params, keys).make()
    by_variant = {} if log is None else variant_counts(log, method, params)
    variants = {key[1:]: count for key, count in (release or {}).items() if key[0] == "variant"}
    has_variants = release is not None and ("activities",) not in release  # else it is a graph
    _LOG.info("attack: canaries")
    coins = None if log is None else _canaries(log, method, params, delta, each, keys)
    proofs = [(f"{one.what}: {one.event} proves", one.epsilon) for one in findings]
    if coins is not None:
        proofs.append(("canaries prove", coins["epsilon"]))
    audited, claimed = max((bound for _, bound in proofs), default=0.0), guarantee.epsilon
    refutations = [
        f"{what} epsilon >= {bound:.3f}"
        for what, bound in proofs
        if claimed is not None and bound > claimed
    ]
    accounted = None
    if guarantee.kind == "rigorous":
        accounted = composed_epsilon(spends, sum((s.delta for s in spends), Fraction(0)))
    body: dict[str, Any] = {
        "warning": INTERNAL,
        "publishable": False,
        "verdict": "",
        "is_refuted": guarantee.kind == "rigorous" and bool(refutations),
        "refutations": refutations,
        "method": method.name,
        "params": params.resolved(),
        "claimed": {name: getattr(guarantee, name) for name in _CLAIMED},
        "accounted_epsilon": accounted,
        "audited": {
            "epsilon": audited,
            "ratio_to_claimed": None if claimed is None else audited / claimed,
            "largest_provable": max((one.largest_provable for one in findings), default=0.0),
            "confidence": confidence,
            "pairs": list(map(asdict, findings)),
            "canaries": coins,
        },
        "log": {
            "cases": 0 if log is None else log.n_cases,
            "support": support_attack(by_variant, variants, delta) if has_variants else None,
            "crowd_sizes": crowd_sizes(np.array([*variants.values()])) if has_variants else None,
        },
        "spends": [spend.to_json() for spend in spends],
        "choices_paid_for": list(_chosen(spends, last)),
    }
    words = from_template(_ROOM, "verdict.txt.j2", report=body)
    return {**body, "verdict": " ".join(words)}


def _chosen(spends: Sequence[Spend], last: str) -> Iterator[str]:
    """What is chosen on the log and paid for: of a joint part, its open blocks and its choices."""
    for spend in spends:
        if spend.mechanism == "joint":
            yield from (block.what for block in spend.blocks if block.delta and block.what != last)
            yield from (name for name, _ in spend.choices)
        elif spend.what != last:
            yield spend.what


def audit_pair(
    pair: Pair,
    method: Anonymizer,
    params: Any,
    delta: float,
    n_releases: int,
    confidence: float,
    seconds: float = math.inf,
    keys: Iterator[ReleaseKey] | None = None,
    shows_sums: bool = False,
) -> PairFinding:
    """Bounds epsilon from below by independent releases of both logs of a pair.

    Args:
        pair: The logs.
        method: The method.
        params: Its parameters.
        delta: The claimed one.
        n_releases: Of each log.
        confidence: Of the bound.
        seconds: That the releases of one log may take; their number follows from the time that a
            few take, never from what they show.
        keys: Fresh ones.
        shows_sums: Whether the noisy sums are looked at, if there are any, and not the release.
    """
    keys = releases.fresh_keys() if keys is None else keys
    both = pair.with_unit, pair.without_unit
    sides = [releases.Releases(log, method, params, keys, shows_sums) for log in both]
    cells = releases.changed_cells(sides, next(keys))
    watched = releases.watched_keys(pair.variants, cells, "tree" in method.writes(params))
    n = n_releases
    if math.isfinite(seconds):
        for side in sides:
            side.sample(1, watched)  # what is computed once
        begun = time.perf_counter()
        for side in sides:
            side.sample(_TIMED_RELEASES, watched)
        each = (time.perf_counter() - begun) / (2 * _TIMED_RELEASES)
        n = max(min(n_releases, int(seconds / each)), _FEWEST_RELEASES)
    a, b = (side.sample(n, watched) for side in sides)
    audited = epsilon_lower_bound(a, b, delta, confidence, releases.feature_names(watched))
    n_measured, alpha = n - n // 2, (1 - confidence) / 2
    sure = clopper_pearson(n_measured, n_measured, alpha)[0] - delta
    never = clopper_pearson(0, n_measured, alpha)[1]
    return PairFinding(
        what=pair.what,
        looked_at="noisy sums" if shows_sums else "release",
        n_releases=n,
        epsilon=audited.epsilon,
        largest_provable=math.log(sure / never) if sure > never else 0.0,
        event=audited.event,
        confidence=confidence,
        is_reached=bool(np.isfinite(np.concatenate([a, b])[:, releases.N_OF_ALL :]).any()),
    )


def _canaries(
    traces: TraceBatch,
    method: Anonymizer,
    params: Any,
    delta: float,
    confidence: float,
    keys: Iterator[ReleaseKey],
) -> dict[str, float] | None:
    """Puts units of a variant of their own into the log by a coin each, and guesses the coins.

    All coins are guessed: present and with at least the median count is taken for in. A canary of
    one run is in no other, so all runs are one mechanism and their canaries count together.
    """
    variants = canaries(traces, method, params, _N_CANARIES)
    if not variants:
        return None
    m = method.bounds(params).max_cases_per_individual or 1
    n_right = 0
    for _ in range(_N_CANARY_RUNS):
        coins = np.array([secrets.randbelow(2) for _ in variants], bool)
        cases = [
            (f"canary individual {i}", variants[i]) for i in np.flatnonzero(coins) for _ in range(m)
        ]
        seen = releases.Releases(
            with_cases(traces, cases), method, params, keys, shows_sums=True
        ).make()
        scores = np.array([_score(seen or {}, variant) for variant in variants])
        guesses = np.isfinite(scores) & (scores >= np.median(scores))
        n_right += int((guesses == coins).sum())
    n = _N_CANARY_RUNS * len(variants)
    return {
        "n_runs": _N_CANARY_RUNS,
        "n_canaries": n,
        "n_right": n_right,
        "epsilon": one_run_epsilon(n, n, n_right, delta, confidence),
    }


def _score(seen: dict[Key, float], variant: releases.Variant) -> float:
    """How much a release shows of a variant: its count, or that of its rarest pair."""
    if ("width",) not in seen:
        return seen.get(("variant", *variant), -math.inf)
    return min(seen.get(("pair", *pair), -math.inf) for pair in releases.pairs_of(variant))
