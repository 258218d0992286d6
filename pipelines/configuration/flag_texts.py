"""How help and plans write a parameter.

A flag takes a plain value as text, and a list as text separated by commas. A list or a mapping can
also be given as in the configuration file, such as in JSON, or as `@FILE`, a file that has only
this value.

The text of a flag is read by the same rules.
"""

from __future__ import annotations

import json
import types
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, Union, get_args, get_origin

import pydantic
from pydantic.fields import FieldInfo

from tracecloak.pipelines.configuration.files import yaml_of
from tracecloak.schemas.errors import UsageError
from tracecloak.schemas.texts.bounded_json import bounded_json

# Lists and mappings whose plain text is the path of a file with a form of its own.
NAMES_OF_FILES = ("vocabulary", "model", "groups")

_FILE = "@FILE, a file of YAML or JSON"


def kinds_of(annotation: Any) -> set[type]:
    """Returns which of list and dict a value can be; a plain value is neither."""
    origin = get_origin(annotation)
    if origin is Annotated:
        return kinds_of(get_args(annotation)[0])
    if origin in (Union, types.UnionType):
        return {kind for one in get_args(annotation) for kind in kinds_of(one)}
    of = annotation if origin is None else origin
    if not isinstance(of, type) or issubclass(of, str | bytes):
        return set()
    if issubclass(of, Mapping | pydantic.BaseModel):
        return {dict}
    return {list} if issubclass(of, Sequence | set | frozenset) else set()


def parameter_help(name: str, field: FieldInfo) -> str:
    """Returns the help of a parameter: what it is, how a flag has it, and what is the default."""
    return _joined(field.description, form_of(name, field), standing(field))


def form_of(name: str, field: FieldInfo) -> str:
    """Returns a sentence on how a flag has a list or a mapping; empty for a plain value."""
    kinds = kinds_of(field.annotation)
    if not kinds:
        return ""
    if name in NAMES_OF_FILES:
        return f"Instead of that file's path also JSON, or {_FILE}."
    if list in kinds:
        return f"Separated by commas, as JSON, or {_FILE}."
    return f"As JSON, or {_FILE}."


def standing(field: FieldInfo) -> str:
    """Returns whether a key is required or what is its default; empty where it has neither."""
    if field.is_required():
        return "(required)"
    default = default_text(field)
    return "" if default is None else f"(default {default})"


def key_help(field: FieldInfo) -> str:
    """Returns the help of a key of a configuration, without how a flag has it."""
    return _joined(field.description, standing(field))


def default_text(field: FieldInfo) -> str | None:
    """Returns the default as a flag would have it; None where there is none or it is empty."""
    default = None if field.is_required() else field.get_default(call_default_factory=True)
    if default is None or default == () or default == {}:
        return None
    return flag_text(as_json(default))


def as_json(value: Any) -> Any:
    """Returns a parameter as JSON has it."""
    adapter: pydantic.TypeAdapter[Any] = pydantic.TypeAdapter(Any)
    return adapter.dump_python(value, mode="json")


def flag_text(value: Any) -> str:
    """Returns a parameter, as JSON has it, as the text of its flag."""
    if isinstance(value, list | tuple) and not any(map(_needs_json, value)):
        return ",".join(map(_plain, value))
    if isinstance(value, Mapping | list | tuple):
        return json.dumps(value, ensure_ascii=False)
    return _plain(value)


def shown(name: str, value: Any, indent: str = "") -> Iterator[str]:
    """Yields a parameter, as JSON has it, in lines to read: parts below, each further in."""
    if value is None:
        yield f"{indent}{name} = not set"
    elif isinstance(value, Mapping | list | tuple) and not value:
        yield f"{indent}{name} = none"
    elif isinstance(value, Mapping):
        yield f"{indent}{name}:"
        for key, part in value.items():
            yield from shown(str(key), part, indent + "  ")
    elif _is_list(value) and any(map(_has_parts, value)):
        yield f"{indent}{name}:"
        for part in value:
            if _is_list(part) and not any(map(_has_parts, part)):
                yield f"{indent}  - {', '.join(map(_listed, part))}"
            else:
                yield from shown("-", part, indent + "  ")
    elif _is_list(value):
        yield f"{indent}{name} = {', '.join(map(_listed, value))}"
    else:
        yield f"{indent}{name} = {_plain(value)}"


def _joined(*parts: str | None) -> str:
    return " ".join(" ".join(part or "" for part in parts).split())


def _is_list(value: Any) -> bool:
    return isinstance(value, list | tuple)


def _has_parts(value: Any) -> bool:
    return isinstance(value, Mapping | list | tuple)


def _plain(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _needs_json(part: Any) -> bool:
    """Whether a part of a list cannot stand between commas."""
    text = part if isinstance(part, str) else ""
    is_blank = isinstance(part, str) and not text.strip()
    return (
        _has_parts(part)
        or part is None
        or is_blank
        or "," in text
        or text != text.strip()
        or text.startswith(("[", "{", "@"))
    )


def _listed(part: Any) -> str:
    text = _plain(part)
    return json.dumps(text, ensure_ascii=False) if "," in text or text != text.strip() else text


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
        return yaml_of(f"{name}: file", text[1:])
    if text.lstrip().startswith(("[", "{")):
        return _in_line(name, text)
    if list in kinds and name not in NAMES_OF_FILES:
        return [part.strip() for part in text.split(",") if part.strip()]
    return text


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
