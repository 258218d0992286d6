"""Accounts whose Gaussian noise, pure parts and deltas have a cap each."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from tests.anonymizers.accounting.test_account_caps import gaussian, pure
from tests.support.ledgers import account, faults, reservation
from tracecloak.anonymizers.accounting.account_caps import Loss, caps_of, loss_of
from tracecloak.anonymizers.accounting.composition import Spend, decimal_text, total
from tracecloak.pipelines.keys.key_store import KeyStore
from tracecloak.pipelines.ledger import caps, reading
from tracecloak.pipelines.ledger.balance import Balance
from tracecloak.pipelines.ledger.cache import _KNOWN
from tracecloak.pipelines.ledger.database import LedgerError
from tracecloak.pipelines.ledger.entries import NO_COLUMNS, Reservation, WindowCharge
from tracecloak.pipelines.ledger.officers_ledger import OfficersLedger as Ledger
from tracecloak.schemas.errors import BudgetExhausted, UsageError

OFFICER = ("the officer", "file 17")
CAPS = caps_of(Fraction(1), Fraction(1, 10**5))
FIRST = caps_of(Fraction(4), Fraction(1, 10**5))


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    """A ledger with an account that composes, of epsilon 1."""
    ledger = Ledger(f"sqlite:///{tmp_path / 'ledger.sqlite'}", new=True)
    ledger.declare_account(account("1"), *OFFICER)
    return ledger


def of_parts(number: int, parts: Iterable[Spend], **changes: Any) -> Reservation:
    """What a release of these parts asks."""
    epsilon, delta = total(parts)
    spends = tuple(part.to_json() for part in parts)
    return reservation(number, epsilon=str(float(epsilon)), delta=delta, spends=spends, **changes)


def spent(ledger: Ledger) -> list[Fraction]:
    """What the account spent, by coordinate of its caps."""
    balance = ledger.balance("a")
    return [balance.spent[name] for name in balance.caps]


def test_an_account_with_a_delta_composes_and_others_add_up(ledger: Ledger) -> None:
    one = ledger.account_in(ledger.past(), "a")
    assert one is not None
    assert (one.composition, one.three_caps, one.largest) == (
        "gaussian", CAPS, (Fraction(1), Fraction(1, 10**5)),
    )  # fmt: skip
    assert "answered: epsilon 1 at delta 0.00001. So far: epsilon 0 " in reading.show(ledger)[0]
    for name, both in {"b": ("1", "0"), "c": (None, "1e-5"), "d": (None, None)}.items():
        ledger.declare_account(account(*both, name=name), *OFFICER)
        other = ledger.account_in(ledger.past(), name)
        assert other is not None
        assert other.composition == "sum"
    assert faults(ledger) == []


def test_an_account_of_before_stays_a_sum_until_somebody_changes_it(ledger: Ledger) -> None:
    """Its caps follow from the numbers that it was begun with, and not from what it spent."""
    ledger.declare_account(account("2", name="b"), *OFFICER, "sum")
    ledger.reserve(reservation(0, "1.5", account="b"))
    ledger.declare_account(account("3", name="b"), *OFFICER)  # as it was begun
    one = ledger.account_in(ledger.past(), "b")
    assert one is not None
    assert one.composition == "sum"
    with pytest.raises(UsageError, match=r"at most epsilon 2 and delta 0\.00001, as it was begun"):
        ledger.declare_account(account("3", name="b"), *OFFICER, "gaussian")
    ledger.declare_account(account("2", name="b"), *OFFICER, "gaussian")
    assert ledger.balance("b").caps == caps_of(Fraction(2), Fraction(1, 10**5))._asdict()
    assert ledger.balance("b").exceeded == ["pure_epsilon"]  # its release says nothing of noise
    with pytest.raises(UsageError, match="begun with composition gaussian; begin another account"):
        ledger.declare_account(account("2", name="b"), *OFFICER, "sum")


def test_caps_are_raised_up_to_what_was_fixed_at_the_start(ledger: Ledger) -> None:
    with pytest.raises(UsageError, match=r"at most epsilon 1 and delta 0\.00001, as it was begun"):
        ledger.declare_account(account("2"), *OFFICER)
    most = {"largest": (Fraction(4), Fraction(1, 10**5))}
    ledger.declare_account(account("1", name="b", **most), *OFFICER)
    with pytest.raises(UsageError, match="at most epsilon 4"):
        ledger.declare_account(account("1", name="b", largest=(Fraction(5), *most["largest"][1:])),
                               *OFFICER)  # fmt: skip
    ledger.declare_account(account("3", name="b"), *OFFICER)
    assert ledger.balance("b").caps == caps_of(Fraction(3), Fraction(1, 10**5))._asdict()
    assert "answered: epsilon 4 at delta 0.00001." in reading.show(ledger, "b")[0]


def test_forty_graphs_fit_where_ten_did(ledger: Ledger) -> None:
    """Each is refused before anything is written once a cap is reached."""
    part, number = gaussian("0.1", "5e-8"), 0
    with pytest.raises(BudgetExhausted, match="squared mu of Gaussian noise cap"):
        for number in range(200):
            ledger.reserve(of_parts(number, [part]))
    assert number > 40
    assert len(ledger.entries()) - number in range(1, 10)  # the account, and checkpoints
    squared_mu, *others = spent(ledger)
    assert CAPS.squared_mu * Fraction(9, 10) < squared_mu <= CAPS.squared_mu
    assert others[0] == 0
    assert others[1] < Fraction(1, 10**15)  # of rounding
    shown, facts = reading.show(ledger, "a")
    assert facts["accounts"][0]["releases_like_the_last_left"] == 0
    assert facts["accounts"][0]["shares"]["squared_mu"] == float(squared_mu / CAPS.squared_mu)
    assert facts["accounts"][0]["spent"]["squared_mu"] == decimal_text(squared_mu)
    assert facts["accounts"][0]["caps"]["squared_mu"] == decimal_text(CAPS.squared_mu)
    assert "if no choice of a release depended on an answer" in shown
    ledger.reserve(of_parts(999, [pure("0.1")]))  # other coordinates have room


@pytest.mark.parametrize(
    ("parts", "name"),
    [
        ([pure("0.21")], "epsilon of pure parts cap 0.2, spent 0, asked 0.21, remaining 0.2"),
        ([Spend("v", "approximate", Fraction(1, 10), Fraction(6, 10**6))], "delta of thresholds"),
        ([gaussian("1", "1e-5"), gaussian("0.1", "1e-6")], "squared mu of Gaussian noise"),
    ],
)
def test_a_release_is_refused_by_any_of_three_caps(
    ledger: Ledger, parts: list[Spend], name: str
) -> None:
    with pytest.raises(BudgetExhausted, match=f"cannot pay for release 'r0': .*{name}"):
        ledger.reserve(of_parts(0, parts))
    assert len(ledger.entries()) == 1
    with pytest.raises(UsageError, match="no finite epsilon holds"):
        ledger.reserve(reservation(1, None))


def test_windows_cost_the_dearest_in_each_coordinate(ledger: Ledger) -> None:
    windows = {"w1": [gaussian("0.3", "1e-7")], "w2": [pure("0.1")], "w3": [pure("0.05")]}
    for number, (label, parts) in enumerate(windows.items()):
        ledger.reserve(of_parts(number, parts, window=WindowCharge("scope", label)))
    assert spent(ledger) == [*map(max, loss_of(windows["w1"]), loss_of(windows["w2"]))]


def test_what_is_given_back_is_free_in_all_coordinates(ledger: Ledger) -> None:
    ledger.reserve(of_parts(0, [gaussian("0.3", "1e-7"), pure("0.1")]))
    assert all(spent(ledger))
    opened = ledger.balance("a").opened
    assert [opened[name] for name in Loss._fields] == spent(ledger)
    ledger.void("/out", "r0", "k")
    assert spent(ledger) == [0, 0, 0]


def test_the_file_of_accounts_lowers_all_three(ledger: Ledger, tmp_path: Path) -> None:
    ledger = Ledger(ledger.url, {"a": account("0.5")})
    balance: Balance = ledger.balance("a")
    assert balance.caps == Loss(*map(min, CAPS, caps_of(Fraction(1, 2), CAPS[2] * 2)))._asdict()


def test_entries_that_no_ledger_wrote_are_faults(ledger: Ledger) -> None:
    asked = reservation(0)
    ledger.append(lambda past: [("reserve", asked.columns(), {**asked.facts(), "lost": 5})])
    by = {"by": "me", "reason": "why", "caps": ["1", "x", "0"], "largest": ["1"]}
    columns = {**NO_COLUMNS, "account": "b", "epsilon": "1", "delta": "0.1", "unit": "case"}
    ledger.append(lambda past: [("account", columns, by)], is_sound=False)
    assert faults(ledger) == [
        "entry 2: lost is not valid", "entry 3: caps is not valid", "entry 3: largest is not valid",
    ]  # fmt: skip
    with pytest.raises(LedgerError, match="does not say what tracecloak wrote"):
        ledger.reserve(reservation(1))


def test_of_what_a_ledger_lost_all_that_its_caps_left_counts(tmp_path: Path) -> None:
    store = KeyStore(tmp_path)
    ledger = Ledger(store.ledger_url, new=True, store=store)
    ledger.declare_account(account("1"), *OFFICER)
    backup = (tmp_path / "ledger.db").read_bytes()
    ledger.reserve(of_parts(0, [gaussian("0.1", "5e-8")]))
    (tmp_path / "ledger.db").write_bytes(backup)
    ledger = Ledger(store.ledger_url, store=store)
    ledger.accept(*OFFICER)
    balance = ledger.balance("a")
    assert (balance.spent, balance.exceeded) == ({**balance.spent, **CAPS._asdict()}, [])
    with pytest.raises(BudgetExhausted):
        ledger.reserve(of_parts(1, [gaussian("0.1", "5e-8")]))
    assert faults(ledger) == []


# --- An account that a first release begins, as nobody declared caps. ---


@pytest.fixture
def empty(
    tmp_path: Path, first_account: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> Ledger:
    """A ledger without accounts, in which releases begin some."""
    monkeypatch.setattr(caps, "first_account", first_account)
    return Ledger(f"sqlite:///{tmp_path / 'empty.sqlite'}", new=True)


def test_a_first_release_begins_an_account_in_which_releases_add_up(empty: Ledger) -> None:
    """As soon as the officer declares one, it pays no more; declared itself, it may compose."""
    for number, part in enumerate([gaussian("0.5", "1e-7"), pure("1"), gaussian("2", "1e-7")]):
        empty.reserve(of_parts(number, [part]))
    assert empty.balance("a").caps == {"epsilon": 4, "delta": Fraction(1, 10**5)}
    assert "begins the account" in reading.show(empty)[0]
    with pytest.raises(BudgetExhausted, match="cap: `tracecloak ledger declare`"):
        empty.reserve(of_parts(3, [pure("1")]))
    empty.declare_account(account("9", name="b"), *OFFICER)
    with pytest.raises(UsageError, match="account 'a' is not declared in the ledger, which has b"):
        empty.reserve(reservation(99, "0"))
    with pytest.raises(UsageError, match="at most epsilon 4 and delta"):
        empty.declare_account(account("5"), *OFFICER, "gaussian")
    empty.declare_account(account("4"), *OFFICER, "gaussian")
    assert empty.balance("a").caps == FIRST._asdict()
    assert faults(empty) == []


def test_a_first_release_has_no_more_than_the_first_caps_but_for_its_horizon(
    empty: Ledger,
) -> None:
    with pytest.raises(BudgetExhausted, match="epsilon cap 4, spent 0, asked 5"):
        empty.reserve(of_parts(0, [pure("5")]))
    assert empty.entries() == []
    empty.reserve(of_parts(1, [pure("5")], whole=(Fraction(60), Fraction(0))))
    assert empty.balance("a").caps == {"epsilon": 60, "delta": Fraction(1, 10**5)}
    empty.reserve(reservation(2, None, account="published"))  # no cap can be for it
    assert empty.balance("published").caps == {}


def test_a_data_set_that_another_account_paid_for_begins_none(empty: Ledger) -> None:
    """Catches a fresh cap for who lets the account be that of the data set."""
    empty.reserve(reservation(0, dataset="the ward's"))
    with pytest.raises(UsageError, match="account 'a' paid for releases of dataset \"the ward's\""):
        empty.reserve(reservation(1, account="the ward's", dataset="the ward's"))
    empty.reserve(reservation(1, account="the ward", dataset="the ward"))
    empty.declare_account(account("1", name="the ward's"), *OFFICER)
    empty.reserve(reservation(1, account="the ward's", dataset="the ward's"))


def test_an_account_that_a_data_set_is_bound_to_begins_with_caps(empty: Ledger) -> None:
    empty.bind_dataset("stays", "b", *OFFICER)
    empty.reserve(reservation(0, account="b", dataset="stays"))
    assert empty.balance("b").caps["epsilon"] == 4
    assert faults(empty) == []


@pytest.mark.parametrize("begins", [{"epsilon": "9", "delta": "0"}, {"epsilon": "x"}])
def test_a_login_that_reserves_cannot_raise_a_cap(empty: Ledger, begins: object) -> None:
    """Catches an officer's cap that a reservation replaces."""
    empty.declare_account(account("1"), *OFFICER)
    asked = reservation(0)
    empty.append(lambda past: [("reserve", asked.columns(), {"begins": begins})])
    assert "entry 2: it begins an account that there is" in faults(empty)
    with pytest.raises(LedgerError, match="does not say what tracecloak wrote"):
        empty.reserve(reservation(1, "3"))


def test_a_checkpoint_has_the_accounts_that_releases_begin(empty: Ledger, tmp_path: Path) -> None:
    store = KeyStore(tmp_path)
    ledger = Ledger(empty.url, store=store)
    for number in range(70):
        ledger.reserve(reservation(number, "0.01"))
    _KNOWN.clear()
    again = Ledger(empty.url, store=store)
    assert again.past().n_since_checkpoint < 10
    assert again.balance("a").caps == ledger.balance("a").caps == empty.balance("a").caps
