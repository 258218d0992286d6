"""Errors of the command in the words of Python, where its flags are keywords."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from tracecloak.schemas.errors import TracecloakError, UsageError

_SWITCHES = ("even_if_unusable", "new_ledger")
# What the command says, and what Python has in its place.
_INSTEAD = {
    "Run again with --traceback to see where": (
        "Its cause, which Python shows as well, says where"
    ),
    ", or under `columns:` in the configuration": "",
    "the file of --vocabulary": "--vocabulary",
}
# Commands stand between these marks, and stay what they are.
_COMMAND = re.compile(r"(`[^`]*`)")
_FLAG = re.compile(r"--([a-z][a-z_]*)")


def in_python(text: str) -> str:
    """Returns a sentence in which flags are keywords, but for those of commands.

    So `give it with --release_id claims` becomes `give it with release_id= claims`.
    """

    def keyword(flag: re.Match[str]) -> str:
        return f"{flag[1]}=True" if flag[1] in _SWITCHES else f"{flag[1]}="

    for in_command, in_python in _INSTEAD.items():
        text = text.replace(in_command, in_python)
    parts = _COMMAND.split(text)
    return "".join(part if part.startswith("`") else _FLAG.sub(keyword, part) for part in parts)


def merge_params(params: Mapping[str, Any] | None, keys: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the parameters of a method and the keywords beside them, without those that are None.

    Raises:
        UsageError: One is in both.
    """
    given, keywords = (
        {name: value for name, value in some.items() if value is not None}
        for some in (params or {}, keys)
    )
    if twice := sorted(given.keys() & keywords.keys()):
        raise UsageError(f"{twice[0]} is given twice: in params and beside them; leave one out")
    return given | keywords


@contextlib.contextmanager
def translate_errors(words: Callable[[str], str] = in_python) -> Iterator[None]:
    """Has errors name keywords and no flags.

    Args:
        words: Returns a sentence of the command as a user of Python reads it.
    """
    try:
        yield
    except TracecloakError as error:
        error.args = (words(str(error)), *error.args[1:])
        raise
