"""JSON within bounds, and read in one way only.

YAML within bounds: what no configuration has is refused, and whatever the text, it ends.
"""

from __future__ import annotations

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from tracecloak.schemas.texts import bounded_json, bounded_yaml

LAUGHS = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]\n" for i in range(1, 12)
)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (LAUGHS, "anchors"),
        ("a: &x {b: 1}\nc: *x", "anchors"),
        ("a: *x", "aliases"),
        ("[" * 100_000, "100 deep"),
        ("{a: " * 100_000, "100 deep"),
        ("- " * 100_000, "100 deep"),
        ("? " * 100_000, "100 deep"),
        ("a: " + "9" * 1_000_000, "more than 400 characters"),
        ("a: 1" + ":1" * 200_000, "more than 400 characters"),
        ("a: 1." + "9" * 1_000_000, "more than 400 characters"),
        ("9" * 2_000_000, "longer than 1 MiB"),
        ("[" + "1," * 100_001 + "]", "more than 100,000 values"),
        ("a: 2026-99-99", "not what its form"),
        ("a: !!bool perhaps", "not what its form"),
        ("a: !!int ''", "not what its form"),
        ("a: !!timestamp soon", "not what its form"),
        ('a: "\\UFFFFFFFF"', "no character has"),
        ('a: "\\U00110000"', "no character has"),
        ("a: 1\nb: 2\na: 3", "key given twice: a"),
        ("a: [", "expected"),
        (b"a: \xff", "utf-8"),
    ],
)
def test_what_no_configuration_has_is_refused(text: str | bytes, told: str) -> None:
    with pytest.raises(ValueError, match=told) as raised:
        bounded_yaml(text)
    assert len(str(raised.value)) < 1000


@settings(deadline=None)
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=9),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(max_size=9), inner),
    )
)
def test_what_is_within_the_bounds_is_read_as_yaml_reads_it(value: object) -> None:
    class NoAliases(yaml.SafeDumper):
        def ignore_aliases(self, _: object) -> bool:
            return True

    text = yaml.dump(value, Dumper=NoAliases, allow_unicode=True)
    assert bounded_yaml(text) == yaml.safe_load(text)


@settings(deadline=None)
@given(
    st.text(st.sampled_from("ab:-{}[]&*!<>|%@\"'\\#?, \n\t0159.eE+_xoUTZ~"), max_size=30)
    | st.from_regex(r"!!(int|float|bool|timestamp|set|omap|pairs|binary|null|str|map) .{0,12}")
    | st.from_regex(r"[-+]?[0-9_:.T Z-]{0,25}")
)
def test_every_text_is_read_or_refused(text: str) -> None:
    try:
        bounded_yaml(text)
    except ValueError as refused:
        assert str(refused)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[" * 100_000, "500 deep"),
        ("[" * 501 + "]" * 501, "500 deep"),
        ('{"a":' * 501 + "1" + "}" * 501, "500 deep"),
        ("9" * 2_000_000, "more than 400 digits"),
        ('{"a": 1, "b": {"c": 1, "c": 2}}', "key given twice: c"),
        ("[NaN]", "NaN is no number"),
        ("[-Infinity]", "-Infinity is no number"),
        ("[1", "Expecting"),
        (b'"\xff"', "utf-8"),
    ],
)
def test_what_readers_differ_in_or_fail_on_is_refused(text: str | bytes, told: str) -> None:
    with pytest.raises(ValueError, match=told) as raised:
        bounded_json(text)
    assert len(str(raised.value)) < 1000
