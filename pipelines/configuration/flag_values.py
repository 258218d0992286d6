"""What the text of a flag stands for, by the rules that flag_texts.py states."""

from __future__ import annotations

import json
from typing import Any

from pydantic.fields import FieldInfo

from tracecloak.pipelines.configuration.flag_texts import NAMES_OF_FILES, kinds_of
from tracecloak.schemas.errors import UsageError
from tracecloak.schemas.texts.bounded_json import bounded_json


def given_value(name: str, text: Any, field: FieldInfo) -> Any:
    """Returns what a flag's text stands for, as a configuration file would have it.

    Args:
        name: Of the flag.
        text: What was typed. A value that is no text is returned as it is.
        field: The parameter.

    Raises:
        UsageError: The text is neither JSON nor YAML though it begins so, or its file cannot be
            read.
    """
    kinds = kinds_of(field.annotation)
    if not isinstance(text, str) or not kinds:
        return text
    if text.startswith("@"):
        return _of_file(name, text[1:])
    if text.lstrip().startswith(("[", "{")):
        return _in_line(name, text)
    if list in kinds and name not in NAMES_OF_FILES:
        return [part.strip() for part in text.split(",") if part.strip()]
    return text


def _of_file(name: str, path: str) -> Any:
    from tracecloak.schemas.texts.bounded_yaml import MAX_BYTES, bounded_yaml

    try:
        with open(path, "rb") as stream:
            return bounded_yaml(stream.read(MAX_BYTES + 1))
    except OSError as error:
        raise UsageError(f"{name}: file {path!r} cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise UsageError(f"{name}: file {path!r} is no YAML that can be read: {error}") from None


def _in_line(name: str, text: str) -> Any:
    """Tries JSON first, as its strings may have characters that YAML does not allow."""
    try:
        return bounded_json(text)
    except json.JSONDecodeError:
        pass
    except ValueError as error:
        raise UsageError(f"{name}: {error}") from None
    from tracecloak.schemas.texts.bounded_yaml import bounded_yaml

    try:
        return bounded_yaml(text)
    except ValueError as error:
        raise UsageError(
            f"{name}: what begins with {text.lstrip()[0]} must be JSON, or YAML as in a "
            f"configuration file: {error}; got {text[:80]!r}"
        ) from None
