"""The privacy statement of a release, and its promise in plain words and numbers.

Texts are Markdown; names that others wrote are escaped.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import ROUND_CEILING, Context, Decimal
from fractions import Fraction
from typing import Any

from tracecloak.anonymizers.accounting.calibration import guessing_advantage_of
from tracecloak.anonymizers.accounting.composition import decimal_text, joint_sentence, noise_of
from tracecloak.anonymizers.accounting.intervals import Interval
from tracecloak.schemas.events.events import OTHER
from tracecloak.schemas.published.manifest import (
    SUPPRESSED_STARTS,
    Guarantee,
    ReleaseManifest,
    Yield,
    at_most,
)
from tracecloak.schemas.texts import escaped, in_json, templates_of, without_secrets

# --- Epsilon and delta in numbers that somebody can judge: what an attacker's guess can rise to. --
# If two inputs are told apart with epsilon and delta, a release is as informative as one that
# tells the answer with probability delta and else keeps to epsilon (Kairouz, Oh, Viswanath 2015).
# That is not that e^epsilon is passed with probability delta: noise that is Gaussian passes it
# some twenty times as often, by little. With t > 0, e^(epsilon + t) is passed with probability at
# most delta / (1 - e^-t), as what is beyond it counts for that share of itself in delta. Under
# epsilon alone a guess of probability p rises to at most p e^epsilon / (p e^epsilon + 1 - p).
# Whoever is added or removed with (epsilon, delta) is replaced with (2 epsilon, (1 + e^epsilon)
# delta) (Dwork and Roth 2014). Every bound is rounded up.


PRIORS = (Fraction(1, 100), Fraction(1, 10), Fraction(1, 2))
"""Guesses of which pages say to what they can rise."""

_LARGEST_SHOWN_FACTOR = 10**9
# From this epsilon on a guess of one half may become nearly certain. Beyond the other one the bound
# on it is the same in every digit that is shown, and e^epsilon soon too large to compute.
_PROMISES_LITTLE, _ALL_THE_SAME = 4, 50


def exact(value: float) -> Fraction:
    """The number that a float is the shortest text of."""
    return Fraction(repr(float(value)))


def _ceiling(value: Decimal, n_digits: int) -> str:
    rounded = Context(prec=n_digits, rounding=ROUND_CEILING).plus(value)
    # Without the zeros that the precision adds to short numbers.
    return f"{rounded.normalize():,f}"


def posterior(prior: Fraction, epsilon: Fraction) -> str:
    """Largest probability of a guess after the release, in percent, rounded up to a tenth."""
    decay = (-Interval.of(epsilon)).exp()
    bound = Interval.of(1) / (Interval.of((1 - prior) / prior) * decay + 1)
    percent = (bound.high * 100).quantize(Decimal("0.1"), rounding=ROUND_CEILING)
    return "100 %" if percent >= 100 else f"{percent:f} %"


_GUESSES = {
    ("case", "add_remove"): "that one case is in the input",
    ("case", "replace_one"): "which of two courses one case took",
    ("individual", "add_remove"): "that a person is in the input",
    ("individual", "replace_one"): "which of two courses a person's cases took",
    ("event", "add_remove"): "that one event is in the input",
    ("event", "replace_one"): "which of two events one event was",
}


def caution(guarantee: Guarantee) -> str:
    """Returns how little a large epsilon promises, in a sentence; empty below an epsilon of 4.

    Of the epsilon that holds for the whole release and its unit, and the question that its
    adjacency is about; a guess of 50 % is the one that can rise the furthest.
    """
    epsilon = guarantee.epsilon
    if epsilon is None or guarantee.kind == "syntactic" or not epsilon >= _PROMISES_LITTLE:
        return ""
    most = posterior(Fraction(1, 2), exact(min(epsilon, _ALL_THE_SAME)))
    if most == "100 %":  # as it is rounded up
        most = "more than 99.9 %"
    guess = _GUESSES[guarantee.unit, guarantee.adjacency]
    return f"Epsilon {at_most(epsilon)} promises little: a guess of 50 % {guess} may become {most}."


@dataclass(frozen=True)
class Bound:
    """How far a release answers one question of an attacker."""

    epsilon: str
    delta: str
    advantage: str
    posteriors: tuple[str, ...]

    @classmethod
    def of(cls, epsilon: Fraction, delta: str, advantage: float) -> Bound:
        """Returns the bound with its guesses."""
        return cls(
            decimal_text(epsilon),
            delta,
            f"{Decimal(advantage).quantize(Decimal('0.0001'), rounding=ROUND_CEILING):f}",
            tuple(posterior(prior, epsilon) for prior in PRIORS),
        )


@dataclass(frozen=True)
class Promise:
    """Epsilon and delta in numbers, and what follows for an attacker's two questions.

    Attributes:
        epsilon: As promised.
        delta: As promised.
        odds: n of "at most 1 in n"; empty for delta 0.
        twice_delta: Bound on the probability that twice the factor is passed, twice delta.
        factor: e^epsilon, rounded up.
        presence: Whether a unit is in the input at all, or None: no bound follows.
        content: Which of two a unit is, or None: no bound follows.
    """

    epsilon: str
    delta: str
    odds: str
    twice_delta: str
    factor: str
    presence: Bound | None
    content: Bound | None

    @classmethod
    def of(cls, guarantee: Guarantee) -> Promise | None:
        """Returns None where no finite epsilon holds."""
        if guarantee.epsilon is None or guarantee.kind == "syntactic":
            return None
        epsilon, delta = exact(guarantee.epsilon), exact(guarantee.delta or 0.0)
        gained = guessing_advantage_of(epsilon, delta, guarantee.adjacency)
        grown = Interval.of(epsilon).exp()
        presence: Bound | None = None
        content: Bound | None
        if guarantee.adjacency == "replace_one":
            content = Bound.of(epsilon, decimal_text(delta), gained.any_prior)
        else:
            presence = Bound.of(epsilon, decimal_text(delta), gained.membership)
            # Replacing is removing and adding.
            replacing_delta = ((grown + 1) * Interval.of(delta)).high
            shown = f"at most {_ceiling(replacing_delta, 3)}" if delta else "0"
            is_bounded = replacing_delta < 1
            content = Bound.of(2 * epsilon, shown, gained.any_prior) if is_bounded else None
        is_shown = grown.high <= _LARGEST_SHOWN_FACTOR
        return cls(
            epsilon=decimal_text(epsilon),
            delta=decimal_text(delta),
            odds=f"{1 // delta:,}" if delta else "",
            twice_delta=decimal_text(2 * delta),
            factor=_ceiling(grown.high, 4) if is_shown else f"e^{decimal_text(epsilon)}",
            presence=presence,
            content=content,
        )


_PACKAGE = "tracecloak.transforms.publish"
# No value makes a line of its own.
_WORDS = templates_of(_PACKAGE, finalize=lambda value: str(value).replace("\n", " "))


def in_words(manifest: ReleaseManifest) -> dict[str, str]:
    """Returns what a release promises as an officer says it, by the names in `words.txt.j2`."""
    return sentences(
        "words.txt.j2",
        manifest=manifest,
        guarantee=manifest.guarantee,
        promise=Promise.of(manifest.guarantee),
        times=[times for part in manifest.spends for _, _, times in noise_of(part)],
        hidden_starts=SUPPRESSED_STARTS,
    )


def facts_of(manifest: ReleaseManifest) -> dict[str, Any]:
    """Returns what templates print of a release's manifest and of the promise in it."""
    said, held = in_words(manifest), came_out_in_words(manifest.came_out, manifest.params)
    return {
        "manifest": manifest,
        "guarantee": manifest.guarantee,
        "promise": Promise.of(manifest.guarantee),
        "said": said,
        "caution": caution(manifest.guarantee),
        "came_out": " ".join(held.values()),
        "operations": said.get("operations", ""),
        "mechanisms": MECHANISMS,
        "noise_of": noise_of,
        # Those that are not empty, were given and are not off.
        "params": [
            (name, value_in_words(name, value))
            for name, value in manifest.params.items()
            if value not in (None, [], {}) and value is not False
        ],
    }


def promise_in_short(guarantee: Guarantee) -> str:
    """Returns what holds, in a line for a screen."""
    epsilon, delta = (
        decimal_text(exact(number or 0.0)) for number in (guarantee.epsilon, guarantee.delta)
    )
    return sentences("short.txt.j2", guarantee=guarantee, epsilon=epsilon, delta=delta)["short"]


def came_out_in_words(held: Yield | None, params: Mapping[str, Any]) -> dict[str, str]:
    """Returns what came out, and where a declared length is likely to have cut cases.

    Args:
        held: What the release contains, by its own numbers; None: not known.
        params: The method's parameters, as in the manifest: limits on what counts.

    Returns:
        `held`, where there is a number, and `cut`, where more than 2 % of the released cases have
        exactly the declared `max_trace_length`, with the remedy.
    """
    most, declared = (params.get(f"max_{of}") for of in ("cases_per_individual", "trace_length"))
    limits = {"most": most, "declared": declared, "other": OTHER}
    return sentences("came_out.txt.j2", held=held or Yield(), **limits)


def sentences(template: str, **context: Any) -> dict[str, str]:
    """Returns the texts of a template whose lines are `name: text`, by their names."""
    lines = filter(None, _WORDS.get_template(template).render(context).split("\n"))
    return {name: text.strip() for name, _, text in (line.partition(":") for line in lines)}


# --- The privacy statement of a release: Markdown for a privacy officer, in two editions. ---------
# The publishable edition is a pure function of the manifest, so nothing on it was counted on the
# input. The internal one records what only the operator may know: account, inputs, configuration.
# Neither contains the other, and the publishable one does not mention the internal one.
#
# What an attacker can learn is said for both adjacencies; `promise.py` has the bounds.
#
# All that a page quotes is escaped: a name with Markdown in it stays a name.


_LONGEST_VALUE = 60


def printable(text: str) -> str:
    """One line; characters that steer become U+FFFD."""
    line = " ".join(text.split())
    return escaped(line, escape=lambda _: "\ufffd")


MECHANISMS = {
    "discrete_laplace": "discrete Laplace noise",
    "discrete_gaussian": "discrete Gaussian noise",
    "joint": "one Gaussian mechanism, with choices",
    "pure": "noise or a choice with this epsilon",
    "approximate": "noise or a choice with this epsilon and delta",
}


def shortened(text: str, limit: int) -> str:
    """The text, or its beginning and its length."""
    return text if len(text) <= limit else f"{text[:limit]}… ({len(text):,} characters)"


def value_in_words(name: str, value: Any) -> str:
    """A parameter's value in a few words; long lists by their length."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float) and Decimal(str(value)).is_finite():
        return decimal_text(exact(value))
    if isinstance(value, Sequence) and not isinstance(value, str):
        if name == "vocabulary":
            return f"{len(value):,} public activity name{'s' if len(value) != 1 else ''}"
        listed = ", ".join(value_in_words("", item) for item in value)
        return listed if 0 < len(listed) <= _LONGEST_VALUE else f"a list of {len(value):,}"
    if isinstance(value, Mapping):
        listed = ", ".join(f"{key}: {value_in_words('', item)}" for key, item in value.items())
        return listed if 0 < len(listed) <= _LONGEST_VALUE else f"{len(value):,} entries"
    return shortened(printable(str(value)), _LONGEST_VALUE)


_LONGEST_LINE = 300
_MOST_INPUTS = 20


@dataclass(frozen=True)
class InternalFacts:
    """What only the operator may know of a release.

    Attributes:
        account: The account that paid.
        ledger: URL of the ledger, without its password.
        spent_after: What the account has spent with this release, or None: not known.
        cap: What it may spend, or None: no cap.
        inputs: Names of the input files.
        runner: What ran the pipeline.
        config_digest: Digest of all that determines the released bytes beside input and key.
        key_fingerprint: Tells release keys apart.
        dead_letter: Where malformed records are listed, or None: there were none.
        warnings: What the first records of the input say of the release, in sentences.
        configuration: The whole configuration, as JSON values.
    """

    account: str
    ledger: str
    spent_after: str | None
    cap: str | None
    inputs: tuple[str, ...]
    runner: str
    config_digest: str
    key_fingerprint: str
    dead_letter: str | None
    warnings: tuple[str, ...]
    configuration: dict[str, Any]


# --- escaping -------------------------------------------------------------------------------------


class _Markdown(str):
    """Text that is Markdown already: every other value is escaped where a template prints it."""

    __slots__ = ()


# An underscore within a word is no markup (CommonMark 0.31, rules 2 and 6 of emphasis), and whoever
# reads the plain file would see the backslashes of every parameter's name.
_ACTIVE = re.compile(
    r"[\\`*\[\]<>|~&$#@{}]|(?<![^\W_])_|_(?![^\W_])|:(?=//)|(?<=\bwww)\.", re.IGNORECASE
)
_LIST_NUMBER = re.compile(r"^(\d+)([.)])(?=\s|$)")
_BLOCK_MARK = re.compile(r"^[-+=:]")


def _escaped(value: Any) -> str:
    """Returns what a template prints for a value: itself, whatever Markdown it may look like."""
    if isinstance(value, _Markdown):
        return value
    text = _ACTIVE.sub(r"\\\g<0>", printable(str(value)))
    return _BLOCK_MARK.sub(r"\\\g<0>", _LIST_NUMBER.sub(r"\1\\\2", text))


_TEMPLATES = templates_of(_PACKAGE, finalize=_escaped)


def _render(template: str, context: Mapping[str, Any]) -> str:
    text = _TEMPLATES.get_template(template).render(context)
    return re.sub(r"\n{3,}", "\n\n", text).rstrip("\n") + "\n"


def publishable_statement(manifest: ReleaseManifest, has_error_bars: bool) -> str:
    """Returns the statement that may lie beside the release, as Markdown.

    It depends on the manifest alone, what came out included, and shows neither its digests nor its
    versions. Parameters are shown as they are, but a vocabulary and other long values by their
    length, and those that are empty, were not given or are off are left out.

    Args:
        manifest: The release's; nothing in it was counted on the input.
        has_error_bars: Whether numbers of the release stand with `low` and `high`, as its method,
            which the manifest names, says of itself.

    Raises:
        UsageError: Epsilon is finite, but not in (0, 10^6].
    """
    return _render(
        "statement.md.j2",
        {
            **facts_of(manifest),
            "priors": [f"{decimal_text(prior * 100)} %" for prior in PRIORS],
            "joint_sentence": joint_sentence,
            "parts_sum": {
                name: decimal_text(
                    sum((Fraction(part[name]) for part in manifest.spends), Fraction(0))
                )
                for name in ("epsilon", "delta")
            },
            "has_error_bars": has_error_bars,
        },
    )


# --- the internal edition -------------------------------------------------------------------------

_SECRET_NAME = re.compile(r"(?i)password|passwd|secret|token|api_?key|credential")


def _without_secrets(value: Any) -> Any:
    """Returns JSON values without passwords, should one have come this far."""
    if isinstance(value, Mapping):
        return {
            str(name): "***" if item and _SECRET_NAME.search(str(name)) else _without_secrets(item)
            for name, item in value.items()
        }
    if isinstance(value, list | tuple):
        return [_without_secrets(item) for item in value]
    if value is None or isinstance(value, bool | int | float):
        return value
    return without_secrets(str(value))


def internal_statement(manifest: ReleaseManifest, facts: InternalFacts) -> str:
    """Returns the operator's record of a release, as Markdown; not for publication.

    Passwords in addresses and under names that say so are left out. Inputs are listed up to 20, and
    long values of the configuration are cut: its digest stands for the whole.

    Args:
        manifest: The release's.
        facts: What its operator knows beside it.
    """
    shown = _without_secrets(vars(facts) | {"inputs": facts.inputs[:_MOST_INPUTS]})
    # A line for each key with its value in JSON; none is all backticks, so none ends the block.
    configuration = shown.pop("configuration")
    texts = (f"{n}: {json.dumps(v, ensure_ascii=False)}" for n, v in configuration.items())
    lines = [_Markdown(shortened(escaped(text, escape=in_json), _LONGEST_LINE)) for text in texts]
    return _render(
        "internal_statement.md.j2",
        {
            "release_id": manifest.release_id,
            "method": manifest.method,
            "sentence": manifest.guarantee.sentence,
            "facts": shown,
            "n_more_inputs": max(0, len(facts.inputs) - _MOST_INPUTS),
            "configuration": lines,
        },
    )
