"""What the text of a flag stands for, by the rules that flag_texts.py states."""

from __future__ import annotations

import json
from typing import Any

import yaml
from pydantic.fields import FieldInfo

from tracecloak.pipelines.release.flag_texts import NAMES_OF_FILES, kinds_of
from tracecloak.schemas.errors import UsageError


class StrictLoader(yaml.SafeLoader):
    """Refuses a key that is given twice, of which YAML would silently take the last."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        """Returns the mapping of a node."""
        keys = [self.construct_object(key, deep=deep) for key, _ in node.value]
        twice = {str(key) for key in keys if keys.count(key) > 1}
        if twice:
            raise yaml.constructor.ConstructorError(
                None, None, f"key given twice: {', '.join(sorted(twice))}", node.start_mark
            )
        return super().construct_mapping(node, deep=deep)


def given_value(name: str, text: Any, field: FieldInfo) -> Any:
    """Returns what a flag's text stands for, as a configuration file would have it.

    Args:
        name: Of the flag.
        text: What was typed. What is no text is returned as it is.
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
    try:
        with open(path, encoding="utf-8") as stream:
            return yaml.load(stream, Loader=StrictLoader)
    except OSError as error:
        raise UsageError(f"{name}: file {path!r} cannot be read: {error.strerror}") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise UsageError(f"{name}: file {path!r} is no YAML: {error}") from None


def _in_line(name: str, text: str) -> Any:
    """JSON first: not every character of its texts is one of YAML's."""
    try:
        return json.loads(text, object_pairs_hook=lambda pairs: _without_repetition(name, pairs))
    except json.JSONDecodeError:
        pass
    try:
        return yaml.load(text, Loader=StrictLoader)
    except yaml.YAMLError as error:
        what = getattr(error, "problem", None) or error
        raise UsageError(
            f"{name}: what begins with {text.lstrip()[0]} must be JSON, or YAML as in a "
            f"configuration file: {what}; got {text!r}"
        ) from None


def _without_repetition(name: str, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    keys = [key for key, _ in pairs]
    if twice := {key for key in keys if keys.count(key) > 1}:
        raise UsageError(f"{name}: key given twice: {', '.join(sorted(twice))}")
    return dict(pairs)
