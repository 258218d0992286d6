"""The privacy statement of a release: Markdown for a privacy officer, in two editions.

The publishable edition is a pure function of the manifest, so nothing on it was counted on the
input. The internal one records what only the operator may know: account, inputs, configuration.
Neither contains the other, and the publishable one does not mention the internal one.

What an attacker can learn is said for both adjacencies; `promise.py` has the bounds.

All that a page quotes is escaped: a name with Markdown in it stays a name.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from decimal import Decimal
from fractions import Fraction
from typing import Any

import jinja2

from tracecloak.anonymizers.accounting.composition import decimal_text, joint_sentence
from tracecloak.schemas.published.manifest import SUPPRESSED_STARTS, Operation, ReleaseManifest
from tracecloak.schemas.published.yields import Yield
from tracecloak.schemas.texts.escapes import escaped, in_json
from tracecloak.transforms.publish.promise import PRIORS, Promise, caution, exact, in_words

_LONGEST_VALUE = 60


def printable(text: str) -> str:
    """One line; characters that steer become U+FFFD."""
    line = " ".join(text.split())
    return escaped(line, escape=lambda _: "\ufffd")


_DOES = {
    "suppression": "leaves out",
    "addition": "adds",
    "substitution": "replaces",
    "condensation": "sums up",
    "swapping": "swaps",
    "generalization": "makes coarser",
    "cryptography": "encrypts",
}
MECHANISMS = {
    "discrete_laplace": "discrete Laplace noise",
    "discrete_gaussian": "discrete Gaussian noise",
    "joint": "one Gaussian mechanism, with choices",
    "pure": "noise or a choice with this epsilon",
    "approximate": "noise or a choice with this epsilon and delta",
}
_TARGETS = {"concept:name": "activities", "time:timestamp": "times", "org:resource": "resources"}


def operations_in_words(operations: Sequence[Operation]) -> str:
    """What was done to the log in a sentence, or nothing."""
    done: dict[str, list[str]] = {}
    for operation in operations:
        what = f"{_TARGETS.get(operation.target, operation.target)} of {operation.level}s"
        if operation.target == operation.level:
            what = f"whole {operation.level}s"
        elif operation == SUPPRESSED_STARTS:
            what = "when cases begin"
        done.setdefault(_DOES.get(operation.type, operation.type), []).append(what)
    parts = [f"it {does} {_together(whats)}" for does, whats in done.items()]
    return f"Of the log, {'; '.join(parts)}." if parts else ""


def _together(parts: Sequence[str]) -> str:
    return " and ".join([", ".join(parts[:-1]), parts[-1]] if len(parts) > 1 else parts)


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


def params_in_words(params: Mapping[str, Any]) -> list[tuple[str, str]]:
    """(name, value) of each parameter that is not empty, was given and is not off."""
    return [
        (name, value_in_words(name, value))
        for name, value in params.items()
        if value not in (None, [], {}) and value is not False
    ]


def sum_of(spends: Sequence[Mapping[str, Any]], name: str) -> str:
    """The sum of `epsilon` or `delta` of all parts."""
    return decimal_text(sum((Fraction(part[name]) for part in spends), Fraction(0)))


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
            "manifest": manifest,
            "guarantee": manifest.guarantee,
            "came_out": (manifest.came_out or Yield()).sentence_of(manifest.params),
            "operations": operations_in_words(manifest.operations),
            "params": params_in_words(manifest.params),
            "promise": Promise.of(manifest.guarantee),
            "said": in_words(manifest),
            "caution": caution(manifest.guarantee),
            "priors": [f"{decimal_text(prior * 100)} %" for prior in PRIORS],
            "mechanisms": MECHANISMS,
            "joint_sentence": joint_sentence,
            "parts_sum": {name: sum_of(manifest.spends, name) for name in ("epsilon", "delta")},
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
    from tracecloak.schemas.texts.secrets import without_secrets  # of releases, and of no stream

    return without_secrets(str(value))


def _configuration_lines(configuration: Mapping[str, Any]) -> list[_Markdown]:
    """A line for each key with its value in JSON; none is all backticks, so none ends the block."""
    lines = []
    for name, value in _without_secrets(configuration).items():
        text = f"{name}: {json.dumps(value, ensure_ascii=False)}"
        line = escaped(text, escape=in_json)
        lines.append(_Markdown(shortened(line, _LONGEST_LINE)))
    return lines


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
