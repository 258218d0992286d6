"""Untrusted texts: parsed within bounds, escaped where they are shown, secrets masked.

Not here: what a configuration or a release means.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import yaml

if TYPE_CHECKING:
    import jinja2


def text_or_null(data: bytes) -> str | None:
    """Returns what bytes say in UTF-8; None: they are none."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        return None


# --- Templates: of texts, Markdown and pages; a name that a template does not get is an error. ----


def templates_of(package: str, folder: str = "templates", **options: Any) -> jinja2.Environment:
    """Returns the templates in a folder of a package.

    Args:
        package: The package.
        folder: Its folder; empty: the package itself.
        options: What jinja takes beside; values are escaped only where `autoescape` is set.
    """
    import jinja2  # loaded on use

    return jinja2.Environment(
        loader=jinja2.PackageLoader(package, folder),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        **options,
    )


# --- JSON that somebody else may have written, read within bounds and in one way only. ------------


MAX_DEPTH = 500
"""Lists and mappings within one another. A released tree of 200 operators has 400 of them."""
MAX_DIGITS = 400
"""Characters of a number; a floating-point number has no more than 309 digits before its point."""


def bounded_json(data: str | bytes) -> Any:
    """Returns what a JSON text says.

    Readers differ in what they make of a key that is given twice, of NaN and of Infinity, so none
    of them is allowed.

    Raises:
        ValueError: It is no JSON, has one of these, a whole number of more than 400 digits, or
            lists and mappings more than 500 deep.
    """
    try:
        parsed = json.loads(
            data, object_pairs_hook=_mapping, parse_int=_whole, parse_constant=_no_constant
        )
    except RecursionError:
        raise ValueError(_TOO_DEEP) from None
    level, depth = [parsed], 0
    while level := [value for value in level if isinstance(value, dict | list)]:
        depth += 1
        if depth > MAX_DEPTH:
            raise ValueError(_TOO_DEEP)
        level = [
            inner
            for outer in level
            for inner in (outer.values() if isinstance(outer, dict) else outer)
        ]
    return parsed


def n_values(data: bytes) -> int:
    """Returns how many values a JSON text has at most, give or take one."""
    return sum(map(data.count, (b",", b"[", b"{")))


_TOO_DEEP = f"lists and mappings are more than {MAX_DEPTH} deep"


def _mapping(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for key, value in pairs:
        if key in values:
            raise ValueError(f"key given twice: {key[:80]}")
        values[key] = value
    return values


def _whole(digits: str) -> int:
    if len(digits) > MAX_DIGITS:
        raise ValueError(f"a number has more than {MAX_DIGITS} digits")
    return int(digits)


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no number of JSON")


# --- YAML that somebody else may have written, read within bounds: no text makes a run wait. ------
# A mapping gives no key twice, of which YAML would silently take the last. There are no anchors
# and no aliases, of which a few lines make a value of billions of members.


MAX_BYTES = 1 << 20
"""No configuration is longer."""
MAX_YAML_DEPTH = 100
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
        if self._depth > MAX_YAML_DEPTH:
            self._refuse(f"lists and mappings are more than {MAX_YAML_DEPTH} deep", event)
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


# --- Texts that could harm whoever shows them: steering characters, formulas, passwords. ----------


# ---
# Characters that steer what shows them, written as escapes: no name changes the text around it.
# An escape sequence, an override of direction or a character of no width in a name of an activity
# can hide what stands beside it on a terminal. So such a character is written by its number, as in
# `\x1b`, `\u202e` or `\U000e0001`.


STEERING = ("Cc", "Cf", "Cn", "Co", "Cs", "Zl", "Zp")
"""Categories of characters that steer instead of being seen, such as overrides of direction."""

_ESCAPE = re.compile(r"\\(?:\\|x([0-9a-f]{2})|u([0-9a-f]{4})|U(00[0-9a-f]{6}))?")


def by_number(character: str) -> str:
    r"""Returns how a character is written by its number, such as `\x1b`."""
    code = ord(character)
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def in_json(character: str) -> str:
    r"""Returns how texts of JSON write a character in ASCII, such as `\u001b`."""
    return json.dumps(character)[1:-1]


def escaped(text: str, kept: str = "", escape: Callable[[str], str] = by_number) -> str:
    """Returns a text for people to read; a backslash stays one, so escapes can be ambiguous.

    Args:
        text: Any, also with lone surrogates.
        kept: Characters that stay as they are, such as line ends.
        escape: How one that steers is written.
    """
    if text.isprintable():
        return text
    steers = {c for c in {*text}.difference(kept) if unicodedata.category(c) in STEERING}
    return "".join(escape(c) if c in steers else c for c in text)


def escaped_exactly(text: str) -> str:
    """Returns the text with doubled backslashes, of which `unescaped` makes the same text again."""
    return escaped(text.replace("\\", "\\\\"))


def unescaped(text: str) -> str:
    r"""Returns the text that `escaped_exactly` was given.

    Raises:
        ValueError: A backslash begins none of `\\`, `\x1b`, `\u202e` and `\U000e0001`, or that of
            no character.
    """
    return _ESCAPE.sub(_character, text)


def _character(match: re.Match[str]) -> str:
    if match[0] == "\\\\":
        return "\\"
    digits = match[match.lastindex or 0]
    if digits == "\\":
        raise ValueError("a backslash begins no escape")
    if unicodedata.category(chr(int(digits, 16))) == "Cs":
        raise ValueError("a lone surrogate is no character")
    return chr(int(digits, 16))


# --- Names that a spreadsheet computes when it opens them in a CSV, as if they were its formulas. -
# A released log has its names as they are, since others compare them with their own. So whoever
# releases one as CSV is warned of them, and may choose the format `spreadsheet`, which puts an
# apostrophe in front.


FORMULA = "[=+\\-@\t\r\n\0\uff1d\uff0b\uff0d\uff20]"
"""The characters with which a formula begins, as an expression: those that OWASP names for CSV
injection and in ASVS 1.2.10, of full width as well. Behind a space no spreadsheet computes one."""

FORMULA_BEGINNINGS = "=, +, -, @, also of full width, a tab or a line end"
"""The same in words."""


def formulas(names: Iterable[str]) -> list[str]:
    """Returns those names that begin as formulas of a spreadsheet do, in their order."""
    return [name for name in names if re.match(FORMULA, name)]


# --- Passwords in URLs, connection strings and parameters, which no message and no file may show. -


# Each of these patterns reads a text once from beginning to end, however often it begins to match.
_PORT = re.compile(r"(?i)((?:https?|hdfs|kafka)://(?:\[[^/\s]*\]|[^:/\s]*)):\d+(?=/)")
# Before an @ behind which no other is: a user and its password, or of HTTP also a token alone.
_USER = re.compile(r"(?i)://(?:\[[0-9a-f:.]*\])?+[^:/\s]*:|https?://(?=[^/?#@\s]*@)")
_OPTION = re.compile(r"(?<![\w/])(\w++\s*+)=\s*+")
_OPTION_VALUE = re.compile(r"'[^']{0,500}'|[^&;\s]+")
# Words of SQL may be around an = as well, so most names must be next to it.
_SECRET_OPTION = re.compile(
    r"(?i)password|passwd|pwd|(?:secret|token|(?:api|access|account|private)_?key|signature)\w*$"
    r"|^(?:sig|pass|passphrase)$"
)
SECRET_REFUSED = (
    "has a password in it, or a parameter that could be a secret, which lists of processes, the "
    "history of a shell or the configuration would show; put the URI into an environment variable "
    "and say env:NAME, or into a file that only you can read and say file:PATH"
)
"""Of what is refused for it: the reason and the remedy."""


def without_secrets(text: str) -> str:
    """Returns a text with *** for passwords in URLs, and for values of options named like secrets.

    Options are parameters of a URL, words of a connection string as libpq reads it, or of ODBC. A
    folder such as /token=5/ of a partitioned log is none.
    """
    words = re.split(r"(\s+)", text)
    for i, word in enumerate(words):
        if "@" in word:
            before, at, after = word.rpartition("@")
            before = _PORT.sub(r"\1", before)  # and not the beginning of a password
            if (user := _USER.search(before + at)) is not None:
                words[i] = f"{before[: user.end()]}***@{after}"
    text, pieces, end = "".join(words), [], 0
    while (option := _OPTION.search(text, end)) is not None:
        pieces.append(text[end : option.end()])
        end = option.end()
        value = _OPTION_VALUE.match(text, end) if _SECRET_OPTION.search(option[1][-200:]) else None
        if value is not None:
            pieces.append("***")
            end = value.end()
    return "".join([*pieces, text[end:]])


def has_secret(text: str) -> bool:
    """Returns whether a text has a password, or what could be one, as it is or percent-encoded.

    Drivers decode an address after they have split it, and each splits in its own way, as at the
    slash or the space of a password that should be encoded. So whatever is like a secret counts.
    """
    forms = [text, unquote(text.replace("\\/", "/"))]  # JSON may write a slash so
    if re.match(r"\s*[\w+.-]+://", text):
        forms += ["".join(form.split()) for form in forms]
    return any(without_secrets(form) != form for form in forms)
