"""Whether public numbers say beforehand that nobody could use a release.

Suppose that a log has 400 activities and about 40 cases. At epsilon 1 the noise of each of its
160,000 possible pairs is larger than what any pair counts, so what comes out is off by as much as
it counts, and to publish nothing would be as good. Three public numbers are enough to find that
before anything is read or paid: the declared cases, the declared activities and epsilon.

The rule is that of a plan's verdict: on synthetic logs of those numbers, released with such noise,
the answer is "no" (`verdict`; for graphs and logs that is an error of more than nine tenths of what
is counted, even where all cases have one of a few variants). Nothing is said where the cases or the
activities are not declared, where there are more than 100,000 cases, or where the noise is small
beside them.
"""

from __future__ import annotations

from dataclasses import replace

from tracecloak.anonymizers.registry import method_named
from tracecloak.pipelines.configuration.config import ReleaseConfig
from tracecloak.pipelines.planning.advice import may_be_noise
from tracecloak.pipelines.planning.verdict import Verdict, judged_at


def is_in_doubt(config: ReleaseConfig) -> bool:
    """Returns whether a verdict is worth asking for: enough is declared, and noise is large."""
    if config.expected_cases is None or config.guarantee.kind != "rigorous":
        return False
    method, params = method_named(config.method), config.method_params
    if method.bounds(params).vocabulary is None:
        return False
    return may_be_noise(method, params, config.expected_cases)


def unusable_among(config: ReleaseConfig, judged: tuple[Verdict, ...]) -> Verdict | None:
    """Returns the verdict by which a release is not usable; None: there is none.

    Args:
        config: What would be released.
        judged: Verdicts by public numbers alone, of the expected cases if these are declared.
    """
    against = [verdict for verdict in judged if verdict.grade == "no"]
    return against[0] if against and is_in_doubt(config) else None


def unusable(config: ReleaseConfig) -> Verdict | None:
    """Returns the verdict by which a release is not usable; None: nothing speaks against it.

    It takes no time where nothing is declared or the noise is small.
    """
    if config.expected_cases is None or not is_in_doubt(config):
        return None
    method, params = method_named(config.method), config.method_params
    judged = judged_at(method, params, config.expected_cases, config.expected_variants)
    return with_mends(config, judged) if judged.grade == "no" else None


def with_mends(config: ReleaseConfig, verdict: Verdict) -> Verdict:
    """Returns a verdict with what would help most, which is tried on synthetic logs."""
    from tracecloak.pipelines.planning.verdict import mends_of

    method, params = method_named(config.method), config.method_params
    return replace(verdict, mends=mends_of(method, params, verdict))


def unusable_sentence(verdict: Verdict) -> str:
    """Returns why a release is not usable and what would help, by public numbers alone."""
    n_cases, n_names = verdict.worth.n_cases, verdict.worth.n_names
    said = (
        f"NOT USABLE, by public numbers alone: with {n_cases:,} cases and {n_names:,} activities, "
        f"{verdict.why}."
    )
    return said if verdict.mends is None else f"{said} {verdict.mends.sentence}"
