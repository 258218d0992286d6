"""Names of activities in pictures and on pages: in one line, and without what does harm there.

Names are data. What XML cannot hold, other control characters and what changes the direction of the
text after it become U+FFFD or a space, so that no name can hide or turn round the number beside it.
"""

from __future__ import annotations

import re

ELLIPSIS = "…"

_LONGEST_NAME = 200  # characters, of a name that is given in full

_SPACES = re.compile(r"[\s\x85]+")

# Controls, what XML cannot hold, and the marks that embed, override or isolate a direction.
_HARMFUL = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff\u202a-\u202e\u2066-\u2069]")


def plain_name(name: str) -> str:
    """Returns a name in one line without control characters, and not longer than 200."""
    text = _HARMFUL.sub("\ufffd", _SPACES.sub(" ", name)).strip()
    return text if len(text) <= _LONGEST_NAME else text[: _LONGEST_NAME - 1] + ELLIPSIS
