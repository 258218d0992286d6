"""Errors of the command in the words of Python, where its flags are keywords."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator

from tracecloak.schemas.errors import TracecloakError

_SWITCHES = ("even_if_unusable", "new_ledger")
_TRACEBACK = "Run again with --traceback to see where"
# Commands stand between these marks, and stay what they are.
_COMMAND = re.compile(r"(`[^`]*`)")
_FLAG = re.compile(r"--([a-z][a-z_]*)")


def in_python(text: str) -> str:
    """Returns a sentence in which flags are keywords, but for those of commands.

    So `give it with --release_id claims` becomes `give it with release_id= claims`.
    """

    def keyword(flag: re.Match[str]) -> str:
        return f"{flag[1]}=True" if flag[1] in _SWITCHES else f"{flag[1]}="

    text = text.replace(_TRACEBACK, "Its cause, which Python shows as well, says where")
    parts = _COMMAND.split(text)
    return "".join(part if part.startswith("`") else _FLAG.sub(keyword, part) for part in parts)


@contextlib.contextmanager
def told_in_python() -> Iterator[None]:
    """Has errors name keywords and no flags."""
    try:
        yield
    except TracecloakError as error:
        error.args = (in_python(str(error)), *error.args[1:])
        raise
