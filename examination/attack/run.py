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
from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from tracecloak.anonymizers.accounting.composed import composed_epsilon
from tracecloak.anonymizers.accounting.composition import Spend
from tracecloak.anonymizers.contract.in_memory import group_into_traces
from tracecloak.anonymizers.contract.method import Anonymizer
from tracecloak.anonymizers.noise.release_key import ReleaseKey
from tracecloak.anonymizers.registry import method_named
from tracecloak.examination.attack.neighbours import (
    Pair,
    canaries,
    made_up_pairs,
    own_pairs,
    variant_counts,
    with_cases,
)
from tracecloak.examination.attack.releases import (
    N_OF_ALL,
    Releases,
    Watch,
    changed_cells,
    fresh_keys,
)
from tracecloak.examination.attack.report import (
    AttackReport,
    CanaryFinding,
    PairFinding,
)
from tracecloak.examination.attack.views import END, START, before_publication
from tracecloak.examination.audit.attacks import singled_out, support_attack
from tracecloak.examination.audit.bounds import (
    clopper_pearson,
    epsilon_lower_bound,
    one_run_epsilon,
)
from tracecloak.pipelines.configuration.config import ReleaseConfig
from tracecloak.pipelines.configuration.query_keys import require_files
from tracecloak.pipelines.configuration.source import source_of
from tracecloak.schemas.errors import UsageError
from tracecloak.schemas.events.traces import TraceBatch
from tracecloak.schemas.published.product import Key

_LOG = logging.getLogger("tracecloak")
DEFAULT_RELEASES = 20_000
DEFAULT_CONFIDENCE = 1 - 1e-6
# Seconds that the releases of one log of a pair may take; then fewer are made.
DEFAULT_SECONDS = 30.0
_FEWEST_RELEASES = 16
_TIMED_RELEASES = 5
_N_CANARIES = 100
_N_CANARY_RUNS = 5


def attack_configuration(config: ReleaseConfig, n_releases: int = DEFAULT_RELEASES) -> AttackReport:
    """Reads the log of a configuration and audits its method; see `attack`.

    Malformed records are left out, as in a release.

    Raises:
        UsageError: An input is not there, or is asked for, or `n_releases` is too small.
        InputSchemaError: An input cannot be read.
    """
    require_files(config.query)
    source = source_of(config)
    method, params = method_named(config.method), config.method_params
    by_individual = method.bounds(params).max_cases_per_individual is not None
    traces = group_into_traces(
        source.events(), by_individual=by_individual, drops_duplicates=source.drops_duplicates
    )
    return attack(method, params, traces, n_releases)


def attack(
    method: Anonymizer,
    params: Any,
    traces: Sequence[TraceBatch],
    n_releases: int = DEFAULT_RELEASES,
    confidence: float = DEFAULT_CONFIDENCE,
    seconds: float = DEFAULT_SECONDS,
    keys: Iterator[ReleaseKey] | None = None,
) -> AttackReport:
    """Audits one configuration, on pairs of logs made up for it and on a log.

    Args:
        method: The method.
        params: Its parameters.
        traces: The operator's log: batches of complete cases, of one vocabulary; with their
            individuals where the method bounds them.
        n_releases: Of each log of a pair, where time allows.
        confidence: Probability at least that no bound exceeds the truth.
        seconds: That the releases of one log may take.
        keys: Fresh ones; by default from the operating system.

    Raises:
        UsageError: There are fewer than 16 releases, or the log cannot be bounded as the method
            asks.
    """
    if n_releases < _FEWEST_RELEASES:
        raise UsageError(f"releases must be at least {_FEWEST_RELEASES}, got {n_releases}")
    keys = fresh_keys() if keys is None else keys
    log = TraceBatch.concat(traces) if traces else None
    pairs = made_up_pairs(method, params)
    if log is not None:
        pairs += own_pairs(log, method, params)
    shown = before_publication(method)
    views = ["release"] if shown is method else ["noisy sums", "release"]
    # One more for the canaries; every bound may be wrong with an equal part of what is left.
    n_bounds = len(pairs) * len(views) + 1
    each = 1 - (1 - confidence) / n_bounds
    guarantee = method.guarantee(params)
    delta = guarantee.delta or 0.0
    findings = []
    for number, pair in enumerate(pairs):
        progress = {"stage": "pairs", "done": number, "total": len(pairs)}
        _LOG.info("attack: %s (pair %d of %d)", pair.what, number + 1, len(pairs), extra=progress)
        for view in views:
            looked_at = shown if view == "noisy sums" else method
            # What is released follows from the sums: it is looked at more briefly.
            share = 1.0 if len(views) == 1 or view == "noisy sums" else 0.1
            findings.append(
                audit_pair(
                    pair, looked_at, params, delta, n_releases, each, share * seconds, keys, view
                )
            )
    spends = method.spends(params)
    rigorous = guarantee.kind == "rigorous"
    last = method.rounds(params)[-1]
    release = None if log is None else Releases([log], method, params, keys).make()
    by_variant = {} if log is None else variant_counts(log, method, params)
    variants = {key[1:]: count for key, count in (release or {}).items() if key[0] == "variant"}
    has_variants = release is not None and ("activities",) not in release  # else it is a graph
    _LOG.info("attack: canaries")
    return AttackReport(
        method=method.name,
        params=params.resolved(),
        guarantee=guarantee,
        spends=spends,
        choices=tuple(_chosen(spends, last)),
        accounted_epsilon=(
            composed_epsilon(spends, sum((s.delta for s in spends), Fraction(0)))
            if rigorous
            else None
        ),
        confidence=confidence,
        pairs=tuple(findings),
        canaries=None if log is None else _canaries(log, shown, params, delta, each, keys),
        support=support_attack(by_variant, variants, delta) if has_variants else None,
        crowds=singled_out(np.array([*variants.values()], float)) if has_variants else None,
        n_cases=0 if log is None else log.n_cases,
    )


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
    looked_at: str = "release",
) -> PairFinding:
    """Bounds epsilon from below by independent releases of both logs of a pair.

    Args:
        pair: The logs.
        method: The method, in the form that is looked at.
        params: Its parameters.
        delta: The claimed one.
        n_releases: Of each log.
        confidence: Of the bound.
        seconds: That the releases of one log may take; their number follows from the time that a
            few take, never from what they show.
        keys: Fresh ones.
        looked_at: Said in the finding.
    """
    keys = fresh_keys() if keys is None else keys
    cells = changed_cells(pair.with_unit, pair.without_unit, method, params, keys)
    watch = Watch(pair.variants, cells, "tree" in method.writes(params))
    sides = [Releases([log], method, params, keys) for log in (pair.with_unit, pair.without_unit)]
    n = n_releases
    if math.isfinite(seconds):
        for side in sides:
            side.sample(1, watch)  # what is computed once
        begun = time.perf_counter()
        for side in sides:
            side.sample(_TIMED_RELEASES, watch)
        each = (time.perf_counter() - begun) / (2 * _TIMED_RELEASES)
        n = max(min(n_releases, int(seconds / each)), _FEWEST_RELEASES)
    a, b = (side.sample(n, watch) for side in sides)
    audited = epsilon_lower_bound(a, b, delta, confidence, watch.names)
    n_measured, alpha = n - n // 2, (1 - confidence) / 2
    sure = clopper_pearson(n_measured, n_measured, alpha)[0] - delta
    never = clopper_pearson(0, n_measured, alpha)[1]
    return PairFinding(
        what=pair.what,
        looked_at=looked_at,
        n_releases=n,
        epsilon=audited.epsilon,
        largest_provable=math.log(sure / never) if sure > never else 0.0,
        event=audited.event,
        confidence=confidence,
        is_reached=bool(np.isfinite(np.concatenate([a, b])[:, N_OF_ALL:]).any()),
    )


def _canaries(
    traces: TraceBatch,
    method: Anonymizer,
    params: Any,
    delta: float,
    confidence: float,
    keys: Iterator[ReleaseKey],
) -> CanaryFinding | None:
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
        seen = Releases([with_cases(traces, cases)], method, params, keys).make() or {}
        scores = np.array([_score(seen, variant) for variant in variants])
        guesses = np.isfinite(scores) & (scores >= np.median(scores))
        n_right += int((guesses == coins).sum())
    n = _N_CANARY_RUNS * len(variants)
    return CanaryFinding(
        _N_CANARY_RUNS, n, n_right, one_run_epsilon(n, n, n_right, delta, confidence)
    )


def _score(seen: dict[Key, float], variant: tuple[str, ...]) -> float:
    """How much a release shows of a variant: its count, or that of its rarest pair."""
    if ("width",) not in seen:
        return seen.get(("variant", *variant), -math.inf)
    pairs = zip((START, *variant), (*variant, END), strict=True)
    return min(seen.get(("pair", *pair), -math.inf) for pair in pairs)
