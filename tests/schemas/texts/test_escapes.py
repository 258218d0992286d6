"""Characters that steer a terminal are shown as escapes, and names can be had back from them."""

from __future__ import annotations

import json
import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tracecloak.schemas.texts import escaped, escaped_exactly, in_json, unescaped

# C0 and C1, delete, marks and overrides of direction, isolates, separators, no width, tags.
HARMFUL = [
    *map(chr, [*range(0x20), *range(0x7F, 0xA0), *range(0x202A, 0x202F), *range(0x2066, 0x206A)]),
    *"\u200b\u200c\u200d\u200e\u200f\u061c\u2028\u2029\u2060\ufeff\u00ad\ud800\udfff\U000e0001",
]


def test_no_character_that_steers_is_shown() -> None:
    for character in HARMFUL:
        shown = escaped(f"a{character}b")
        assert shown.isprintable() and shown.startswith("a\\") and shown.endswith("b"), character
        assert f"{ord(character):x}" in shown, character


@settings(deadline=None)
@given(st.text() | st.text(st.sampled_from("\\xuU0123abn\x1b\u202e\U000e0001"), max_size=12))
def test_what_is_escaped_exactly_is_had_back(text: str) -> None:
    written = escaped_exactly(text)
    assert all(unicodedata.category(c)[0] != "C" for c in written) and len(
        written.splitlines()
    ) == bool(text)
    assert unescaped(written) == text


@pytest.mark.parametrize(
    "text", ["\\", "a\\q", "\\x1", "\\x1B", "\\u202", "\\U00110000", "\\Uffffffff", "\\ud800"]
)
def test_what_is_no_escape_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        unescaped(text)


@settings(deadline=None)
@given(st.dictionaries(st.text(), st.text(st.characters())))
def test_escaped_json_says_the_same(value: dict[str, str]) -> None:
    written = json.dumps(value, indent=2, ensure_ascii=False)
    shown = escaped(written, "\n", in_json)
    assert json.loads(shown) == value
    assert shown.replace("\n", "").isprintable() or escaped(shown, "\n") == shown
