"""The privacy statement of a release: one page of Markdown for a privacy officer, in two editions.

The publishable edition is a pure function of the manifest, so nothing on it was counted on the
input. The internal one records what only the operator may know: account, inputs, configuration.
Neither contains the other, and the publishable one does not mention the internal one.

What an attacker can learn is said for both adjacencies. If two inputs are told apart with epsilon
and delta, a release is as informative as one that tells the answer with probability delta and else
keeps to epsilon (Kairouz, Oh, Viswanath 2015); under epsilon alone a guess of probability p rises
to at most p e^epsilon / (p e^epsilon + 1 - p). Whoever is added or removed with (epsilon, delta) is
replaced with (2 epsilon, (1 + e^epsilon) delta) (Dwork and Roth 2014). Every bound is rounded up.

All that a page quotes is escaped: a name with Markdown in it stays a name.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from decimal import ROUND_CEILING, Context, Decimal
from fractions import Fraction
from typing import Any

import jinja2

from tracecloak.anonymizers.accounting.composition import decimal_text, joint_sentence
from tracecloak.anonymizers.accounting.guessing import guessing_advantage_of
from tracecloak.anonymizers.accounting.intervals import Interval
from tracecloak.schemas.published.guarantee import Guarantee
from tracecloak.schemas.published.manifest import Operation, ReleaseManifest

_PRIORS = (Fraction(1, 100), Fraction(1, 10), Fraction(1, 2))
_LARGEST_SHOWN_FACTOR = 10**9
_LONGEST_VALUE = 60
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


# Categories of characters that steer instead of being seen, such as overrides of direction.
_STEERING = ("Cc", "Cf", "Cn", "Co", "Cs", "Zl", "Zp")


def _printable(text: str) -> str:
    """One line; characters that steer become U+FFFD."""
    line = " ".join(text.split())
    return "".join("\ufffd" if unicodedata.category(c) in _STEERING else c for c in line)


def _escaped(value: Any) -> str:
    """Returns what a template prints for a value: itself, whatever Markdown it may look like."""
    if isinstance(value, _Markdown):
        return value
    text = _ACTIVE.sub(r"\\\g<0>", _printable(str(value)))
    return _BLOCK_MARK.sub(r"\\\g<0>", _LIST_NUMBER.sub(r"\1\\\2", text))


_TEMPLATES = jinja2.Environment(
    loader=jinja2.PackageLoader("tracecloak.transforms.publish"),
    undefined=jinja2.StrictUndefined,
    autoescape=False,  # it would escape for HTML
    finalize=_escaped,
    trim_blocks=True,
    lstrip_blocks=True,
    keep_trailing_newline=True,
)


def _render(template: str, context: Mapping[str, Any]) -> str:
    text = _TEMPLATES.get_template(template).render(context)
    return re.sub(r"\n{3,}", "\n\n", text).rstrip("\n") + "\n"


# --- numbers --------------------------------------------------------------------------------------


def _exact(value: float) -> Fraction:
    """The number that a float is the shortest text of."""
    return Fraction(repr(float(value)))


def _ceiling(value: Decimal, n_digits: int) -> str:
    rounded = Context(prec=n_digits, rounding=ROUND_CEILING).plus(value)
    # Without the zeros that the precision adds to short numbers.
    return f"{rounded.normalize():,f}"


def _advantage(value: float) -> str:
    return f"{Decimal(value).quantize(Decimal('0.0001'), rounding=ROUND_CEILING):f}"


def _posterior(prior: Fraction, epsilon: Fraction) -> str:
    """Largest probability of a guess after the release, in percent, rounded up to a tenth."""
    decay = (-Interval.of(epsilon)).exp()
    bound = Interval.of(1) / (Interval.of((1 - prior) / prior) * decay + 1)
    percent = (bound.high * 100).quantize(Decimal("0.1"), rounding=ROUND_CEILING)
    return "100 %" if percent >= 100 else f"{percent:f} %"


@dataclass(frozen=True)
class _Bound:
    """How far a release answers one question of an attacker."""

    epsilon: str
    delta: str
    advantage: str
    posteriors: tuple[str, ...]

    @classmethod
    def of(cls, epsilon: Fraction, delta: str, advantage: float) -> _Bound:
        return cls(
            decimal_text(epsilon),
            delta,
            _advantage(advantage),
            tuple(_posterior(prior, epsilon) for prior in _PRIORS),
        )


@dataclass(frozen=True)
class _Promise:
    """Epsilon and delta in numbers, and what follows for an attacker's two questions.

    Attributes:
        epsilon: As promised.
        delta: As promised.
        odds: n of "at most 1 in n"; empty for delta 0.
        factor: e^epsilon, rounded up.
        presence: Whether a unit is in the input at all, or None: no bound follows.
        content: Which of two a unit is, or None: no bound follows.
    """

    epsilon: str
    delta: str
    odds: str
    factor: str
    presence: _Bound | None
    content: _Bound | None

    @classmethod
    def of(cls, guarantee: Guarantee) -> _Promise | None:
        """Returns None where no finite epsilon holds."""
        if guarantee.epsilon is None or guarantee.kind == "syntactic":
            return None
        epsilon, delta = _exact(guarantee.epsilon), _exact(guarantee.delta or 0.0)
        gained = guessing_advantage_of(epsilon, delta, guarantee.adjacency)
        grown = Interval.of(epsilon).exp()
        presence: _Bound | None = None
        content: _Bound | None
        if guarantee.adjacency == "replace_one":
            content = _Bound.of(epsilon, decimal_text(delta), gained.any_prior)
        else:
            presence = _Bound.of(epsilon, decimal_text(delta), gained.membership)
            # Replacing is removing and adding.
            of_replacing = ((grown + 1) * Interval.of(delta)).high
            shown = f"at most {_ceiling(of_replacing, 3)}" if delta else "0"
            is_bounded = of_replacing < 1
            content = _Bound.of(2 * epsilon, shown, gained.any_prior) if is_bounded else None
        is_shown = grown.high <= _LARGEST_SHOWN_FACTOR
        return cls(
            epsilon=decimal_text(epsilon),
            delta=decimal_text(delta),
            odds=f"{1 // delta:,}" if delta else "",
            factor=_ceiling(grown.high, 4) if is_shown else f"e^{decimal_text(epsilon)}",
            presence=presence,
            content=content,
        )


# --- what was done --------------------------------------------------------------------------------

_DOES = {
    "suppression": "leaves out",
    "addition": "adds",
    "substitution": "replaces",
    "condensation": "sums up",
    "swapping": "swaps",
    "generalization": "makes coarser",
    "cryptography": "encrypts",
}
_MECHANISMS = {
    "discrete_laplace": "discrete Laplace noise",
    "discrete_gaussian": "discrete Gaussian noise",
    "joint": "one Gaussian mechanism, with choices",
    "pure": "noise or a choice with this epsilon",
    "approximate": "noise or a choice with this epsilon and delta",
}
_TARGETS = {"concept:name": "activities", "time:timestamp": "times", "org:resource": "resources"}


def _operations(operations: Sequence[Operation]) -> str:
    """What was done to the log in a sentence, or nothing."""
    done: dict[str, list[str]] = {}
    for operation in operations:
        what = f"{_TARGETS.get(operation.target, operation.target)} of {operation.level}s"
        if operation.target == operation.level:
            what = f"whole {operation.level}s"
        done.setdefault(_DOES.get(operation.type, operation.type), []).append(what)
    told = [f"it {does} {_together(whats)}" for does, whats in done.items()]
    return f"Of the log, {'; '.join(told)}." if told else ""


def _together(parts: Sequence[str]) -> str:
    return " and ".join([", ".join(parts[:-1]), parts[-1]] if len(parts) > 1 else parts)


def _shortened(text: str, limit: int) -> str:
    return text if len(text) <= limit else f"{text[:limit]}… ({len(text):,} characters)"


def _value(name: str, value: Any) -> str:
    """A parameter's value in a few words; long lists by their length."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float) and Decimal(str(value)).is_finite():
        return decimal_text(_exact(value))
    if isinstance(value, Sequence) and not isinstance(value, str):
        if name == "vocabulary":
            return f"{len(value):,} public activity name{'s' if len(value) != 1 else ''}"
        listed = ", ".join(_value("", item) for item in value)
        return listed if 0 < len(listed) <= _LONGEST_VALUE else f"a list of {len(value):,}"
    if isinstance(value, Mapping):
        listed = ", ".join(f"{key}: {_value('', item)}" for key, item in value.items())
        return listed if 0 < len(listed) <= _LONGEST_VALUE else f"{len(value):,} entries"
    return _shortened(_printable(str(value)), _LONGEST_VALUE)


def _protected_by(part: Mapping[str, Any]) -> str:
    kind = _MECHANISMS.get(part["mechanism"], part["mechanism"])
    return f"{kind}. {joint_sentence(part)}" if "blocks" in part else kind


def _sum_of(spends: Sequence[Mapping[str, Any]], name: str) -> str:
    return decimal_text(sum((Fraction(part[name]) for part in spends), Fraction(0)))


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
    guarantee = manifest.guarantee
    given = {
        name: value
        for name, value in manifest.params.items()
        if value not in (None, [], {}) and value is not False
    }
    return _render(
        "statement.md.j2",
        {
            "release_id": manifest.release_id,
            "method": manifest.method,
            "came_out": "" if manifest.came_out is None else manifest.came_out.sentence,
            "operations": _operations(manifest.operations),
            "given": "; ".join(f"{name} = {_value(name, value)}" for name, value in given.items()),
            "kind": guarantee.kind,
            "unit": guarantee.unit,
            "is_add_remove": guarantee.adjacency == "add_remove",
            "claim": guarantee.claim,
            "reality": guarantee.reality,
            "not_covered": guarantee.not_covered,
            "promise": _Promise.of(guarantee),
            "priors": [f"{decimal_text(prior * 100)} %" for prior in _PRIORS],
            "parts": [{**part, "mechanism": _protected_by(part)} for part in manifest.spends],
            "parts_sum": {name: _sum_of(manifest.spends, name) for name in ("epsilon", "delta")},
            "exact_noise": manifest.exact_noise,
            "has_error_bars": has_error_bars,
            "has_clipped_sums": any(
                block["what"].endswith(" beyond")
                for part in manifest.spends
                for block in part.get("blocks", ())
            ),
        },
    )


# --- the internal edition -------------------------------------------------------------------------

_SECRET_IN_URL = re.compile(r"(://[^:/@\s]*):\S*@")
_SECRET_IN_OPTION = re.compile(r"(?i)((?:password|passwd|pwd|secret|token|api_?key)\w*=)[^&;\s]+")
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
    return _SECRET_IN_OPTION.sub(r"\1***", _SECRET_IN_URL.sub(r"\1:***@", str(value)))


def _configuration_lines(configuration: Mapping[str, Any]) -> list[_Markdown]:
    """A line for each key with its value in JSON; none is all backticks, so none ends the block."""
    lines = []
    for name, value in _without_secrets(configuration).items():
        text = f"{name}: {json.dumps(value, ensure_ascii=False)}"
        line = "".join(_in_json(c) if unicodedata.category(c) in _STEERING else c for c in text)
        lines.append(_Markdown(_shortened(line, _LONGEST_LINE)))
    return lines


def _in_json(character: str) -> str:
    return json.dumps(character)[1:-1]


def internal_statement(manifest: ReleaseManifest, facts: InternalFacts) -> str:
    """Returns the operator's record of a release, as Markdown; not for publication.

    Passwords in addresses and under names that say so are left out. Inputs are listed up to 20, and
    long values of the configuration are cut: its digest stands for the whole.

    Args:
        manifest: The release's.
        facts: What its operator knows beside it.
    """
    shown = {
        field.name: getattr(facts, field.name)
        for field in fields(facts)
        if field.name != "configuration"
    }
    shown["inputs"] = facts.inputs[:_MOST_INPUTS]
    return _render(
        "internal_statement.md.j2",
        {
            "release_id": manifest.release_id,
            "method": manifest.method,
            "sentence": manifest.guarantee.sentence,
            "facts": _without_secrets(shown),
            "n_more_inputs": max(0, len(facts.inputs) - _MOST_INPUTS),
            "configuration": _configuration_lines(facts.configuration),
        },
    )
