"""YAML that somebody else may have written, read within bounds: no text makes a run wait.

A mapping gives no key twice, of which YAML would silently take the last. There are no anchors and
no aliases, of which a few lines make a value of billions of members.
"""

from __future__ import annotations

from typing import Any

import yaml

from tracecloak.schemas.texts.bounded_json import MAX_DIGITS

MAX_BYTES = 1 << 20
"""No configuration is longer."""
MAX_DEPTH = 100
"""Lists and mappings within one another, of which no configuration has ten."""
MAX_VALUES = 100_000
"""Scalars, lists and mappings in all. A list of more names has a file of its own."""

_OF_NUMBERS = ("tag:yaml.org,2002:int", "tag:yaml.org,2002:float")


class StrictLoader(yaml.SafeLoader):
    """Refuses, with a YAMLError, what is described above and all that is beyond the bounds."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._depth = self._n_values = 0

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        """Returns the next node, if it is within the bounds."""
        event: Any = self.peek_event()  # type: ignore[no-untyped-call]
        if isinstance(event, yaml.AliasEvent) or event.anchor is not None:
            self._refuse("anchors (&) and aliases (*) are not read: write the value out", event)
        self._depth += 1
        self._n_values += 1
        if self._depth > MAX_DEPTH:
            self._refuse(f"lists and mappings are more than {MAX_DEPTH} deep", event)
        if self._n_values > MAX_VALUES:
            self._refuse(f"there are more than {MAX_VALUES:,} values", event)
        node = super().compose_node(parent, index)
        self._depth -= 1
        return node

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        """Returns the value of a node."""
        if node.tag in _OF_NUMBERS and len(node.value) > MAX_DIGITS:
            self._refuse(f"a number has more than {MAX_DIGITS} characters", node)
        try:
            return super().construct_object(node, deep=deep)
        except (ValueError, ArithmeticError, LookupError, AttributeError):
            # The forms of dates, numbers and tags are not checked before they are converted.
            self._refuse("a value is not what its form or its tag says", node)

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        """Returns the mapping of a node."""
        given: set[Any] = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            if not isinstance(key, list | dict | set):
                if key in given:
                    self._refuse(f"key given twice: {str(key)[:80]}", key_node)
                given.add(key)
        return super().construct_mapping(node, deep=deep)

    @staticmethod
    def _refuse(problem: str, at: Any) -> Any:
        raise yaml.constructor.ConstructorError(None, None, problem, at.start_mark)


def bounded_yaml(data: str | bytes, loader: type[StrictLoader] = StrictLoader) -> Any:
    """Returns what a YAML text says.

    Args:
        data: The text, as UTF-8 if it is bytes. A caller that reads a file need not read more
            than `MAX_BYTES` and one more byte of it.
        loader: What makes values of it.

    Raises:
        ValueError: It is no UTF-8, no YAML, or beyond a bound of this module.
    """
    if len(data) > MAX_BYTES:
        raise ValueError(f"the text is longer than {MAX_BYTES >> 20} MiB")
    text = data if isinstance(data, str) else data.decode()
    try:
        return yaml.load(text, Loader=loader)
    except yaml.YAMLError as error:
        raise ValueError(str(error)) from None
    except (OverflowError, ValueError):  # of a character's number, which PyYAML does not look at
        raise ValueError("a character has a number that no character has") from None
