"""The accounts file: exact caps, and nothing that can be read in two ways."""

from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.ledgers import account
from tracecloak.anonymizers.accounting.composition import decimal_text
from tracecloak.pipelines.ledger.caps import Account, load_accounts
from tracecloak.pipelines.ledger.entries import parse_decimal
from tracecloak.schemas.errors import UsageError

GOOD = """
accounts:
  claims/2026:
    epsilon: "10"
    delta: 1e-5
    unit: case
    max_cases: 100000
    note: approved, file 17
  2027:
    epsilon: 0.1
    delta: null
    unit: individual
"""


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "accounts.yaml"
    path.write_text(text)
    return path


def test_an_accounts_file_is_read_exactly(tmp_path: Path) -> None:
    assert load_accounts(written(tmp_path, GOOD)) == {
        "claims/2026": Account(
            "claims/2026", Fraction(10), Fraction(1, 100_000), "case", 100_000, "approved, file 17"
        ),
        # A name that YAML takes for a number, and a cap that binary floating point does not have.
        "2027": Account("2027", Fraction(1, 10), None, "individual"),
    }
    assert Fraction(1, 10) != Fraction(0.1)


@pytest.mark.parametrize(
    "text",
    [
        "0.30000000000000000000000000000000000000000000000001",
        '"0.30000000000000000000000000000000000000000000000001"',
        "3000000000000000000000000000000000000000000000000.1e-49",
    ],
)
def test_no_digit_of_a_cap_is_lost(tmp_path: Path, text: str) -> None:
    body = f"accounts: {{a: {{epsilon: {text}, delta: 0, unit: case}}}}"
    cap = load_accounts(written(tmp_path, body))["a"].epsilon_cap
    expected = Fraction(3, 10) + Fraction(1, 10**50)
    assert cap == (expected if "e" not in text else Fraction(3, 10) + Fraction(1, 10**50))


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "one key 'accounts'"),
        ("accounts: {}", "at least one"),
        ("accounts: {a: {}}", "epsilon is missing; write null"),
        ("accounts: {a: 10}", "expected the keys"),
        ("accounts: {a: {epsilon: 1, unit: case}}", "delta is missing; write null"),
        ("accounts: {a: {epsilon: 1, delta: 0}}", "unit is missing"),
        ("accounts: {a: {epsilon: 1, delta: 0, unit: person}}", "unit must be one of"),
        ("accounts: {a: {epsilon: 1, delta: 0, unit: null}}", "unit must be one of"),
        ("accounts: {a: {epsilon: 1, delta: 0, unit: case, cap: 2}}", "unknown key 'cap'"),
        ("accounts: {a: {epsilon: -1, delta: 0, unit: case}}", "epsilon: expected a decimal"),
        ("accounts: {a: {epsilon: .inf, delta: 0, unit: case}}", "epsilon: expected a decimal"),
        ("accounts: {a: {epsilon: 1/3, delta: 0, unit: case}}", "epsilon: expected a decimal"),
        ("accounts: {a: {epsilon: 1_0, delta: 0, unit: case}}", "epsilon: expected a decimal"),
        ("accounts: {a: {epsilon: true, delta: 0, unit: case}}", "epsilon: expected a decimal"),
        ("accounts: {a: {epsilon: 1e9999999, delta: 0, unit: case}}", "expected a decimal"),
        ("accounts: {a: {epsilon: [1], delta: 0, unit: case}}", "epsilon must be one value"),
        ("accounts: {a: {epsilon: 1, delta: 1, unit: case}}", "below 1"),
        ("accounts: {a: {epsilon: 1, delta: 0, unit: case, max_cases: 1.5}}", "whole number"),
        ("accounts: {a: {epsilon: 1, delta: 0, unit: case, max_cases: 0}}", "at least 1"),
        ("accounts: {a: {epsilon: 1, delta: 1.1e-3, unit: case, max_cases: 1000}}", "1/1000"),
        ("accounts: {a: {epsilon: 1, epsilon: 9, delta: 0, unit: case}}", "twice: epsilon"),
        (
            "accounts: {a: {epsilon: 1, delta: 0, unit: case}, "
            "a: {epsilon: 9, delta: 0, unit: case}}",
            "twice: a",
        ),
        ("accounts: {? [a] : {epsilon: 1}}", "a key must be text"),
        ('accounts: {"a\\tb": {epsilon: 1, delta: 0, unit: case}}', "printable"),
        ("accounts: [", "no YAML"),
        ("cap: &x [*x]", "no YAML|one key"),
    ],
)
def test_what_can_be_misread_is_refused(tmp_path: Path, text: str, told: str) -> None:
    with pytest.raises(UsageError, match=told) as raised:
        load_accounts(written(tmp_path, text))
    assert "accounts.yaml" in str(raised.value)


def test_who_pays_is_in_the_file_and_no_cap_is_below_nothing(tmp_path: Path) -> None:
    path = written(tmp_path, GOOD)
    with pytest.raises(UsageError, match=r"account 'zeal' is not in .*; name one of"):
        load_accounts(path, "zeal")
    with pytest.raises(UsageError, match="epsilon must be at least 0, got -1"):
        account("-1")


@given(numerator=st.integers(0, 10**30), twos=st.integers(0, 60), fives=st.integers(0, 60))
def test_decimal_texts_are_exact_and_have_one_form(numerator: int, twos: int, fives: int) -> None:
    value = Fraction(numerator, 2**twos * 5**fives)
    text = decimal_text(value)
    assert Fraction(text) == parse_decimal(text) == value
    assert "e" not in text
    assert not text.startswith(".")
    assert text == "0" or "." in text or not text.startswith("0")
    assert "." not in text or text[-1] != "0"
