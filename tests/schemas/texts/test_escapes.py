"""Characters that steer a terminal are shown as escapes, and names can be had back from them."""

from __future__ import annotations

import json
import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tracecloak.schemas.texts.escapes import escaped, escaped_exactly, in_json, unescaped
from tracecloak.schemas.texts.formulas import formulas

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


def test_what_people_write_stays_as_it_is() -> None:
    for text in ("Größe 5\u00a0µg", "Прием", "入院\u3000検査", "\U0001f600 é", "C:\\n", "=1+1"):
        assert escaped(text) == text
    assert escaped("a\nb\t\x1b[1m", kept="\n\t") == "a\nb\t\\x1b[1m"


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


def test_formulas_are_told_by_their_first_character() -> None:
    names = [
        "=A1", "+1", "-2", "@x", "\t=A1", "\rA", "\0=A", "\uff1d1", "\uff0b1", "\uff0d1", "\uff201",
    ]  # fmt: skip
    assert formulas([*names, "A=1", "", "1-2", "'=A1", " =A1", "\u22121"]) == names
