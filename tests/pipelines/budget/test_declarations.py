"""What the privacy officer declares in the ledger holds, whatever a pipeline is given or not."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.ledgers import account, faults, reservation
from tests.support.releasing import as_typed, ledger_entries, small_release, visible
from tracecloak.anonymizers.accounting.composition import decimal_text
from tracecloak.pipelines.ledger import reading
from tracecloak.pipelines.ledger.caps import Account, load_accounts
from tracecloak.pipelines.ledger.entries import parse_decimal
from tracecloak.pipelines.ledger.officers_ledger import OfficersLedger as Ledger
from tracecloak.schemas.errors import BudgetExhausted, UsageError

OFFICER = ("the officer", "file 17")


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'ledger.sqlite'}"


@pytest.fixture
def ledger(url: str) -> Ledger:
    """A ledger as a pipeline opens it that names no accounts file."""
    return Ledger(url, new=True)


# Caps


def test_a_cap_in_the_ledger_binds_who_names_no_accounts_file(ledger: Ledger, url: str) -> None:
    ledger.declare_account(account("1"), *OFFICER, "sum")
    ledger.reserve(reservation(0, "0.6"))
    with pytest.raises(BudgetExhausted, match=r"epsilon cap 1, spent 0\.6.*asked 0\.6"):
        Ledger(url).reserve(reservation(1, "0.6"))
    with pytest.raises(UsageError, match="no finite epsilon holds"):
        Ledger(url).reserve(reservation(1, None))
    with pytest.raises(UsageError, match="caps per case"):
        Ledger(url).reserve(reservation(1, "0.1", unit="individual"))
    assert faults(ledger) == []


def test_once_an_account_is_declared_no_other_pays(ledger: Ledger) -> None:
    ledger.reserve(reservation(0, account="b"))
    ledger.declare_account(account("1"), *OFFICER, "sum")
    with pytest.raises(UsageError, match="account 'b' is not declared in the"):
        ledger.reserve(reservation(1, account="b"))
    ledger.commit("/out", "r0", "k")  # what is reserved is finished all the same
    text = reading.show(ledger, "b")[0]
    assert "Account b (not declared, so it pays no more): 1 release" in text
    assert "Releases like the last one that still fit: 0" in text
    shown = reading.show(ledger, "b")[1]["accounts"][0]
    assert shown["releases_like_the_last_left"] == 0
    ledger.declare_account(account(None, None, name="b"), *OFFICER, "sum")
    ledger.reserve(reservation(1, "1000", account="b"))


def test_a_cap_below_what_is_spent_is_shown_as_exceeded(ledger: Ledger) -> None:
    """Catches "remaining 0" beside twice the budget."""
    ledger.reserve(reservation(0, "2"))
    assert "xceeded" not in reading.show(ledger)[0]
    ledger.declare_account(account("1.5"), *OFFICER, "sum")
    lines = reading.show(ledger)[0].splitlines()
    assert "  epsilon  1.5      2      2           exceeded" in lines
    assert "  delta    0.00001  0      0           0.00001" in lines
    assert "  Exceeded: more is spent than the caps allow; nothing more can be released." in lines
    shown = reading.show(ledger)[1]["accounts"][0]
    assert (shown["is_exceeded"], shown["epsilon_cap"]) == (True, "1.5")
    with pytest.raises(BudgetExhausted):
        ledger.reserve(reservation(1, "0"))
    ledger.declare_account(account("2"), *OFFICER, "sum")  # exactly spent is not exceeded
    assert "xceeded" not in reading.show(ledger)[0]


@pytest.mark.parametrize(("by", "reason"), [("", "x"), ("x", ""), ("a\nb", "x")])
def test_nobody_declares_anything_without_name_and_reason(
    ledger: Ledger, by: str, reason: str
) -> None:
    for declare in (
        lambda: ledger.declare_account(account(), by, reason),
        lambda: ledger.bind_dataset("d", "a", by, reason),
        lambda: ledger.withdraw("/out", "r0", by, reason),
    ):
        with pytest.raises(UsageError, match="must be printable text and not empty"):
            declare()
    assert ledger.entries() == []


# Data sets


def test_a_second_account_is_refused_for_a_bound_data_set(ledger: Ledger) -> None:
    ledger.reserve(reservation(0, account="b", dataset="claims"))
    ledger.bind_dataset("claims", "a", *OFFICER)
    with pytest.raises(UsageError, match=r"dataset 'claims' belongs to account 'a'"):
        ledger.reserve(reservation(1, account="b", dataset="claims"))
    ledger.reserve(reservation(1, account="a", dataset="claims"))
    ledger.reserve(reservation(2, account="b", dataset="other"))
    ledger.reserve(reservation(3, account="b"))  # nobody can tell what it is
    ledger.reserve(reservation(0, account="b", dataset="claims"))  # it is paid
    assert len(ledger.entries()) == 5
    assert faults(ledger) == []
    text = reading.show(ledger)[0]
    assert "Data set claims is bound to account a\n  Releases that name it were paid by b, too" in (
        text
    )
    assert "dataset claims; the officer: file 17" in text
    shown = reading.show(ledger)[1]["datasets"]
    assert shown == [{"dataset": "claims", "account": "a", "also_paid_by": ["b"]}]
    ledger.bind_dataset("claims", "b", *OFFICER)
    ledger.reserve(reservation(4, account="b", dataset="claims"))


# The command


@pytest.fixture
def common(tmp_path: Path) -> list[object]:
    return small_release(tmp_path)


def test_a_ledger_that_is_not_there_is_an_error_and_nothing_is_made(
    common: list[object], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Catches another key store, or a forgotten flag, with which spending begins at zero."""
    assert as_typed(*common, "--release_id", "r") == 2
    told = capsys.readouterr().err
    assert f"ledger {tmp_path}/keys/ledger.db does not exist" in told
    assert "`tracecloak ledger begin`, or with new_ledger" in told
    elsewhere = f"sqlite:///{tmp_path}/shared.sqlite"
    assert as_typed(*common, "--release_id", "r", "--ledger", elsewhere) == 2
    assert as_typed("ledger", "show", "--key_store", tmp_path / "keys") == 2
    assert as_typed(*common, "--release_id", "r", "--accounts", tmp_path / "none.yaml") == 2
    assert {path.name for path in tmp_path.iterdir()} == {"log.csv"}
    assert as_typed(*common, "--release_id", "r", "--new_ledger") == 0
    assert as_typed(*common, "--release_id", "s") == 0
    assert (tmp_path / "keys" / "ledger.db").stat().st_mode & 0o077 == 0
    assert [e.action for e in ledger_entries(tmp_path / "keys")].count("commit") == 2


def test_an_officer_caps_an_account_and_binds_a_data_set(
    common: list[object], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = ["--key_store", tmp_path / "keys"]
    signed = ["--by", "A. Officer", "--reason", "file 17"]
    caps = ["--delta", "1e-5", "--unit", "case", "--max_cases", 100_000, "--note", "yearly"]
    assert as_typed("ledger", "begin", *place) == 0
    assert "nothing is spent in it" in capsys.readouterr().out
    declared = ["ledger", "declare", "hospital", "--composition", "sum", *place, *signed]
    assert as_typed(*declared, "--epsilon", "lots", *caps) == 2
    assert "epsilon: expected a decimal such as 0.1" in capsys.readouterr().err
    assert as_typed(*declared, "--epsilon", "1.5", *caps) == 0
    assert "Account hospital (per case): 0 releases" in capsys.readouterr().out
    bound = ["ledger", "bind", "claims", "--account", "hospital", *place, *signed]
    assert as_typed(*bound) == 0
    assert capsys.readouterr().out == "Data set claims is bound to account hospital\n"

    run = [*common, "--account", "hospital", "--delta", "1e-6", "--dataset", "claims"]
    assert as_typed(*run, "--release_id", "r") == 0
    assert as_typed(*run, "--release_id", "s") == 4
    assert "epsilon cap 1.5, spent 1, asked 1" in capsys.readouterr().err
    assert not [path for path in visible(tmp_path / "out") if "run_id=s" in str(path)]
    assert not list((tmp_path / "keys").rglob("*.key"))

    assert as_typed("ledger", "show", *place) == 0
    shown = capsys.readouterr().out
    assert "Data set claims is bound to account hospital\n" in shown
    assert "A. Officer: file 17" in shown
    assert as_typed("ledger", "verify", *place) == 0


GOOD = """
accounts:
  claims/2026:
    epsilon: "10"
    delta: 1e-5
    unit: case
    max_cases: 100000
    note: approved, file 17
  2027:
    epsilon: 0.30000000000000000000000000000000000000000000000001
    delta: null
    unit: individual
  shut: {epsilon: 0, delta: "0", unit: case}
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
        "2027": Account("2027", Fraction(3, 10) + Fraction(1, 10**50), None, "individual"),
        "shut": Account("shut", Fraction(0), Fraction(0), "case"),
    }


MISREAD = [
    ("", "one key 'accounts'"),
    ("accounts: {}", "1 or more"),
    ("accounts: {a: {}}", "accounts.a.epsilon: required"),
    ("accounts: {a: 10}", "a: must be a mapping"),
    ("accounts: {a: {epsilon: 1, unit: case}}", "delta: required"),
    ("accounts: {a: {epsilon: 1, delta: 0, unit: person}}", "unit must be one of"),
    ("accounts: {a: {epsilon: 1, delta: 0, unit: case, cap: 2}}", "cap: unknown key"),
    ("accounts: {a: {epsilon: -1, delta: 0, unit: case}}", "epsilon: expected a decimal"),
    ("accounts: {a: {epsilon: 1/3, delta: 0, unit: case}}", "epsilon: expected a decimal"),
    ("accounts: {a: {epsilon: true, delta: 0, unit: case}}", "epsilon: expected a decimal"),
    ("accounts: {a: {epsilon: 1e9999999, delta: 0, unit: case}}", "expected a decimal"),
    ("accounts: {a: {epsilon: [1], delta: 0, unit: case}}", "epsilon: must be text"),
    ("accounts: {a: {epsilon: 1, delta: 1, unit: case}}", "below 1"),
    ("accounts: {a: {epsilon: 1, delta: 0, unit: case, max_cases: 1.5}}", "whole number"),
    ("accounts: {a: {epsilon: 1, delta: 0, unit: case, max_cases: 0}}", "at least 1"),
    ("accounts: {a: {epsilon: 1, delta: 1.1e-3, unit: case, max_cases: 1000}}", "1/1000"),
    ("accounts: {a: {epsilon: 1, epsilon: 9, delta: 0, unit: case}}", "twice: epsilon"),
    (
        "accounts: {a: {epsilon: 1, delta: 0, unit: case}, a: {epsilon: 9, delta: 0, unit: case}}",
        "twice: a",
    ),
    ("accounts: {? [a] : {epsilon: 1}}", "unhashable key"),
    ('accounts: {"a\\tb": {epsilon: 1, delta: 0, unit: case}}', "printable"),
    ("accounts: [", "not valid YAML"),
    ("cap: &x [*x]", "not valid YAML|one key"),
]


def test_what_can_be_misread_is_refused(tmp_path: Path) -> None:
    for text, told in MISREAD:
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
