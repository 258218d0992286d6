"""The texts of errors on wrong parameters: the key, what its value must be, and what it was.

Parameters and configurations are public, so their values are shown. pydantic checks them, but its
own texts speak of its types; the texts here are ours.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any

import pydantic

from tracecloak.schemas.errors import UsageError

_SHOWN_CHARACTERS = 80

# The text of each kind of error, by pydantic's name of it (docs.pydantic.dev, "Validation errors").
# In braces are the limits that pydantic reports with it.
_TEXTS = {
    "missing": "required",
    "greater_than": "must be above {gt}",
    "greater_than_equal": "must be at least {ge}",
    "less_than": "must be below {lt}",
    "less_than_equal": "must be at most {le}",
    "multiple_of": "must be a multiple of {multiple_of}",
    "finite_number": "must be a finite number",
    "decimal_max_places": "must have at most {decimal_places} decimal places",
    "literal_error": "must be {expected}",
    "union_tag_invalid": "{discriminator} must be one of {expected_tags}",
    "union_tag_not_found": "needs {discriminator}",
    "timezone_aware": "must say its offset from UTC, such as the Z of 2026-01-31T12:00:00Z",
    "string_type": "must be text; in a file, write it in quotes",
    "string_unicode": "must be text",
    "string_too_long": "must have at most {max_length} characters",
    "too_short": "must have {min_length} or more members",
    "too_long": "must have {max_length} or fewer members",
    "frozen_instance": "cannot be changed",
}
# The text of an error that the table above lacks, by the beginning of its name.
_TEXTS_BY_PREFIX = {
    "int_": "must be a whole number",
    "float_": "must be a number",
    "decimal_": "must be a decimal number",
    "bool_": "must be true or false",
    "date_": "must be a date such as 2026-01-31",
    "datetime_": "must be a date and a time such as 2026-01-31T12:00:00Z",
    "tuple_": "must be a list; as text, its members are separated by commas",
    "list_": "must be a list; as text, its members are separated by commas",
    "dict_": "must be a mapping of names to values",
    "model_": "must be a mapping of names to values",
}
_OTHER_TEXT = "has a value of a wrong kind"
# Where a key may have a value of several kinds, pydantic ends the place of an error with the kind.
_KIND = re.compile(
    r"(constrained-)?(int|float|str|bool|decimal)|(literal|tuple|list|function-.*)\[.*"
)


def usage_error(
    error: pydantic.ValidationError, whose: str = "", known: Iterable[str] = ()
) -> UsageError:
    """Returns the errors that pydantic found as one text, with a part for each key.

    Args:
        error: What pydantic raised.
        whose: Whose keys they are, such as the name of a method; it is shown with an unknown key.
        known: The keys that there are.
    """
    by_key: dict[str, list[Mapping[str, Any]]] = {}
    for problem in error.errors(include_url=False):
        place = [str(part) for part in problem["loc"] if not _KIND.fullmatch(str(part))]
        by_key.setdefault(".".join(place), []).append(problem)
    return UsageError(
        "; ".join(_line(key, problems, whose, list(known)) for key, problems in by_key.items())
    )


def _line(key: str, problems: Sequence[Mapping[str, Any]], whose: str, known: list[str]) -> str:
    kinds = {problem["type"] for problem in problems}
    if "extra_forbidden" in kinds:
        return f"{key}: unknown key{_suggestion(key, whose, known)}"
    if "missing" in kinds:
        return f"{key}: required"
    # If a key may have a value of several kinds, pydantic reports an error for each kind.
    said = [_text_of(problem) for problem in problems]
    text = " or ".join([said[0], *(s.removeprefix("must be ") for s in dict.fromkeys(said[1:]))])
    if not key:  # the error is of several keys together, whose values are too much to show
        return text
    value = problems[0]["input"]
    given = str(value) if isinstance(value, Decimal) else repr(value)
    if len(given) > _SHOWN_CHARACTERS:
        given = given[:_SHOWN_CHARACTERS] + "…"
    return f"{key}: {text}, got {given}"


def _suggestion(key: str, whose: str, known: list[str]) -> str:
    if "." in key or not known:
        return ""
    if whose:
        return f"; {whose} has {', '.join(known)}"
    close = difflib.get_close_matches(key, known, 1)
    return f"; did you mean {close[0]}?" if close else ""


def _number(limit: Any) -> str:
    return f"{limit:g}" if isinstance(limit, float) else str(limit)


def _text_of(problem: Mapping[str, Any]) -> str:
    kind, context = problem["type"], problem.get("ctx", {})
    if kind in ("value_error", "assertion_error"):
        return str(context["error"])
    if kind == "string_too_short":
        least = context["min_length"]
        return "must not be empty" if least == 1 else f"must have {least} or more characters"
    if kind in _TEXTS:
        return _TEXTS[kind].format(**{name: _number(limit) for name, limit in context.items()})
    said = (text for start, text in _TEXTS_BY_PREFIX.items() if kind.startswith(start))
    return next(said, _OTHER_TEXT)
