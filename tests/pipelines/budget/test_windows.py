"""Charges of windows: what they add up to, which actions they take, and what is shown of them."""

from __future__ import annotations

import itertools
import re
import shutil
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace
from typing import get_args

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.support.books import book_of, of_window, scope, units
from tests.support.ledgers import account, faults, reservation, windowed
from tracecloak.pipelines.budget.draw_guard import Unchanged, draw_guard_of
from tracecloak.pipelines.budget.registry import ledger_state
from tracecloak.pipelines.keys.key_store import KeyStore
from tracecloak.pipelines.ledger import reading
from tracecloak.pipelines.ledger.balance import added, balance_of, increase
from tracecloak.pipelines.ledger.caps import asked_of, check_affordable
from tracecloak.pipelines.ledger.entries import ActionOnCharge, Entry, Reservation, WindowCharge
from tracecloak.pipelines.ledger.officers_ledger import OfficersLedger as Ledger
from tracecloak.pipelines.ledger.reading import scopes_of
from tracecloak.pipelines.ledger.snapshot import LedgerSnapshot, problems
from tracecloak.schemas.errors import BudgetExhausted, RetryLater, UsageError

OFFICER = ("the officer", "a reason")


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger(f"sqlite:///{tmp_path}/ledger.sqlite", {"a": account()}, new=True)


def claim(ledger: Ledger, number: int, case: str = "c") -> str:
    """Claims a case of its own; returns the SHA-256 of what counts."""
    return book_of(ledger).claim("/out", f"r{number}", "k", units([f"{case}{number}"])).sha256


def release(ledger: Ledger, of: Reservation) -> None:
    ledger.reserve(of)
    claim(ledger, int(of.release_id[1:]))
    ledger.draw("/out", of.release_id, "k")
    ledger.commit("/out", of.release_id, "k")


def chained(*steps: tuple[str, Reservation]) -> list[Entry]:
    """The entries of these actions, as a ledger writes them: details stand in `reserve` alone."""
    entries: list[Entry] = []
    for action, of in steps:
        details = {"reserve": of.facts(), "claim": {"units": "ab" * 32}}.get(action)
        last = entries[-1] if entries else None
        entries.append(Entry.after(last, action, of.columns(), details))  # type: ignore[arg-type]
    return entries


# What they add up to

WAYS: tuple[tuple[str, ...], ...] = (
    ("reserve",),
    ("reserve", "claim"),
    ("reserve", "claim", "draw"),
    ("reserve", "claim", "draw", "commit"),
    ("reserve", "claim", "draw", "forfeit"),
    ("reserve", "claim", "draw", "commit", "withdraw"),
    ("reserve", "claim", "void"),
    ("reserve", "claim", "forfeit"),
    ("reserve", "void", "reserve", "claim"),
    ("reserve", "claim", "void", "commit"),
)
OPEN = ("reserve", "claim", "draw")
tenths = st.integers(0, 12).map(lambda n: Fraction(n, 10))
windows = st.one_of(
    st.none(),
    st.builds(
        WindowCharge, st.sampled_from(["s", "t"]), st.sampled_from(["1", "2", "3"]), st.booleans()
    ),
)
asked = st.tuples(
    st.one_of(tenths, tenths, tenths, tenths, st.none()),
    st.integers(0, 5).map(lambda n: Fraction(n, 10**6)),
    windows,
    st.sampled_from(WAYS),
)


# What is asked of an account: epsilon, delta, window, and what became of it.
Drawn = tuple[Fraction | None, Fraction, WindowCharge | None, tuple[str, ...]]


def total(
    charges: list[tuple[Fraction | None, Fraction | None, WindowCharge | None]],
) -> tuple[Fraction | None, Fraction]:
    """The definition, by the worst unit: it is in one window of each scope, and in all the rest."""
    scopes = sorted({w.scope for _, _, w in charges if w is not None})
    worst: list[tuple[Fraction, Fraction]] = []
    for choice in itertools.product(["1", "2", "3"], repeat=len(scopes)):
        is_in = dict(zip(scopes, choice, strict=True))
        mine = [
            (e or Fraction(0), d or Fraction(0))
            for e, d, w in charges
            if w is None or w.adds_up or is_in[w.scope] == w.label
        ]
        worst.append(
            (sum((e for e, _ in mine), Fraction(0)), sum((d for _, d in mine), Fraction(0)))
        )
    epsilon = max(e for e, _ in worst)
    is_finite = all(e is not None for e, _, _ in charges)
    return epsilon if is_finite else None, max(d for _, d in worst)


_TWICE = (Fraction(1), Fraction(0), WindowCharge("s", "1"), WAYS[3])


@example([_TWICE, _TWICE])
@given(st.lists(asked, max_size=6))
def test_an_account_has_spent_what_the_worst_unit_has(
    drawn: list[tuple[Fraction | None, Fraction, WindowCharge | None, tuple[str, ...]]],
) -> None:
    steps, counted, closed = [], [], []
    for number, (epsilon, delta, window, way) in enumerate(drawn):
        of = replace(
            reservation(number, window=window), epsilon=epsilon,
            delta=None if epsilon is None else delta,
        )  # fmt: skip
        way = way if window is not None else tuple(a for a in way if a != "claim")
        steps += [(action, of) for action in way]
        if way[-1] != "void":
            counted.append((of.epsilon, of.delta, window))
            closed += [counted[-1]] if way[-1] not in OPEN else []
    entries = chained(*steps)
    assert problems(entries) == []
    spent = LedgerSnapshot.of(entries).spent("a")
    balance = balance_of(spent, "a", account())
    assert (balance.spent_epsilon, balance.spent_delta) == total(counted)
    assert balance.n_releases == len(counted)
    # Of it open: what there would be less if all that is open were voided.
    if balance.spent_epsilon is not None:
        before = total(closed)
        assert balance.open_epsilon == balance.spent_epsilon - (before[0] or 0)
        assert balance.open_delta == balance.spent_delta - before[1]
    of_scopes = [SimpleNamespace(**one) for one in scopes_of(spent.all)]
    for one in of_scopes:
        own = [c for c in counted if c[2] and c[2].scope == one.scope and not c[2].adds_up]
        assert (one.epsilon, one.delta) == total(own)
        assert one.n_releases == len(own)
        assert one.n_windows == len({c[2].label for c in own if c[2]})
        for label, name in ((one.epsilon_window, 0), (one.delta_window, 1)):
            of_label = total([c for c in own if c[2] and c[2].label == label])
            assert of_label[name] == (one.epsilon, one.delta)[name] or one.epsilon is None
    assert len(of_scopes) == len({c[2].scope for c in counted if c[2] and not c[2].adds_up})


@given(st.lists(asked, max_size=5), tenths, windows, tenths)
def test_a_release_fits_where_the_worst_unit_stays_within_the_cap(
    drawn: list[tuple[Fraction | None, Fraction, WindowCharge | None, tuple[str, ...]]],
    epsilon: Fraction,
    window: WindowCharge | None,
    cap: Fraction,
) -> None:
    steps, counted = [], []
    for number, (one, delta, of, _) in enumerate(drawn):
        if one is not None:
            counted.append((one, delta, of))
            steps.append(("reserve", replace(reservation(number, window=of), epsilon=one,
                                             delta=delta)))  # fmt: skip
    spent = LedgerSnapshot.of(chained(*steps)).spent("a")
    new = replace(reservation(9, window=window), epsilon=epsilon)
    before, after = total(counted), total([*counted, (epsilon, Fraction(0), window)])
    assert before[0] is not None and after[0] is not None
    more = increase(spent.all, added(spent.all, [asked_of(new)]))
    assert (more["epsilon"], more["delta"]) == (after[0] - before[0], after[1] - before[1])
    unbounded = asked_of(replace(new, epsilon=None, delta=None))
    more = increase(spent.all, added(spent.all, [unbounded]))
    assert (more.pop("n_boundless"), any(more.values())) == (1, False)
    fits = after[0] <= cap
    try:
        check_affordable(spent, new, account(str(float(cap)), None))
    except BudgetExhausted as error:
        assert not fits
        assert f"asked {float(epsilon):g}" in str(error)
        assert ("to the dearest window" in str(error)) == (
            window is not None and not window.adds_up
        )
    else:
        assert fits


# Which actions they take


def test_a_release_of_a_window_draws_after_its_claim_alone(ledger: Ledger) -> None:
    ledger.reserve(of_window(1, "2026-11"))
    with pytest.raises(UsageError, match="window 2026-11 and has not claimed the"):
        ledger.draw("/out", "r1", "k")
    sha256 = claim(ledger, 1)
    assert claim(ledger, 1, "d") == sha256  # it has claimed: nothing new
    ledger.draw("/out", "r1", "k")
    ledger.draw("/out", "r1", "k")
    assert [entry.action for entry in ledger.entries()] == ["reserve", "claim", "draw"]
    assert faults(ledger) == []
    [charged] = windowed(ledger.entries()).values()
    assert charged.claim is not None and charged.claim.units_sha256 == sha256


# What can follow an action on a charge, and one way to it.
FOLLOWS = {
    "": "reserve",
    "reserve": "claim draw commit void forfeit",
    "reserve claim": "draw commit void forfeit",
    "reserve claim draw": "commit forfeit",
    "reserve void": "reserve commit",
    "reserve claim void reserve": "claim commit void forfeit",
    "reserve forfeit": "commit",
    "reserve commit": "withdraw",
    "reserve commit withdraw": "",
}


@pytest.mark.parametrize("is_of_window", [False, True])
def test_actions_that_cannot_follow_are_noticed(is_of_window: bool) -> None:
    of = of_window(1, "2026-11") if is_of_window else reservation(1)
    for way, following in FOLLOWS.items():
        before = [action for action in way.split() if is_of_window or action != "claim"]
        can = {*following.split()} - ({"draw"} if is_of_window and way == "reserve" else set())
        if not is_of_window:
            can = can - {"claim"} | ({"draw"} if before[-1:] == ["reserve"] else set())
        for action in get_args(ActionOnCharge):
            found = problems(chained(*((one, of) for one in (*before, action))))
            assert (found == []) == (action in can), (way, action)
            assert all(told.startswith(f"entry {len(before) + 1}: {action}") for told in found)


def test_two_charges_of_one_release_claim_the_same(ledger: Ledger) -> None:
    """As where a run was cut off before it drew, and another account pays from then on."""
    ledger = Ledger(ledger.url, {name: account(name=name) for name in "ab"})
    ledger.reserve(of_window(1, "2026-11"))
    sha256 = claim(ledger, 1)
    ledger.reserve(of_window(1, "2026-11", account="b"))
    with pytest.raises(UsageError, match="has not claimed"):
        ledger.draw("/out", "r1", "k")
    claim(ledger, 1, "d")
    ledger.draw("/out", "r1", "k")
    claimed = [e.units_sha256 for e in ledger.entries() if e.action == "claim"]
    assert claimed == [sha256, sha256]
    assert book_of(ledger).check(scope(), compares_all=True) == 2  # each has its rows
    ledger.reserve(of_window(2, "2026-11"))
    ledger.reserve(of_window(2, "2026-12", account="b"))
    with pytest.raises(UsageError, match="reserved for several windows"):
        claim(ledger, 2)


def test_what_a_run_asks_takes_a_claim_for_what_it_is(
    ledger: Ledger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A claim draws nothing: the gate looks at the inputs still, and books say that nothing is."""
    store = KeyStore(tmp_path / "keys")
    ledger.reserve(of_window(1, "2026-11"))
    claim(ledger, 1)
    assert ledger_state(ledger.states("/out", "r1"), "k") == "reserved"
    looked = []

    def look(self: object) -> None:
        looked.append(self)
        raise RetryLater("it changed")

    monkeypatch.setattr("tracecloak.pipelines.budget.draw_guard.Unchanged.__call__", look)
    gate = draw_guard_of(store, ("/out", "r1", "k"), ledger.url, Unchanged(()))
    with pytest.raises(RetryLater):
        gate()
    assert ledger.states("/out", "r1", "k")[-1].last.action == "claim"
    monkeypatch.undo()
    gate()
    gate.check_open()
    assert ledger_state(ledger.states("/out", "r1"), "k") == "drawn"


# What is shown


def test_a_year_of_days_is_one_line_of_an_account(ledger: Ledger) -> None:
    for number, (label, epsilon) in enumerate((("d1", "0.2"), ("d2", "0.3"), ("d3", "0.2"))):
        release(ledger, of_window(number, label, epsilon))
    ledger.reserve(of_window(7, "d4", "0.1", adds_up=True))
    ledger.reserve(of_window(8, "d4", "0.1"))
    text = reading.show(ledger, "a")[0]
    assert f"  Windows of {scope()[:15]}…: 4 windows, 4 releases; the dearest (d2) is" in text
    assert "that still fit: one of each further window, which costs" in text
    assert "window d4; adds up" in text and re.search(r"units \w{16}…\n", text)
    [found] = reading.show(ledger, "a")[1]["accounts"]
    assert found["spent_epsilon"] == "0.4"
    assert found["releases_like_the_last_left"] is None
    assert found["windows"] == [
        {
            "scope": scope(), "n_windows": 4, "n_releases": 4, "epsilon": "0.3",
            "epsilon_window": "d2", "delta": "0", "delta_window": "d2",
        }
    ]  # fmt: skip


# What a key store keeps


def forgotten(tmp_path: Path) -> tuple[Ledger, Path]:
    """A ledger, and its file of a time before anything was released."""
    file = tmp_path / "ledger.sqlite"
    ledger = Ledger(f"sqlite:///{file}", new=True, store=KeyStore(tmp_path / "keys"))
    ledger.declare_account(account("10"), *OFFICER, "sum")
    shutil.copy(file, tmp_path / "backup")
    return ledger, file


def test_windows_add_up_after_some_may_have_been_forgotten(tmp_path: Path) -> None:
    """One unit may be in two windows then, so that the dearer of them does not bound its loss."""
    ledger, file = forgotten(tmp_path)
    book = book_of(ledger)
    for number in (1, 2):
        ledger.reserve(of_window(number, f"w{number}", "1"))
        book.claim("/out", f"r{number}", "k", units([f"c{number}"]))
        if number == 1:
            shutil.copy(file, tmp_path / "backup")
    shutil.copy(tmp_path / "backup", file)
    ledger.accept(*OFFICER)
    assert faults(ledger) == [] and ledger.complaints() == []
    assert ledger.balance("a").remaining_epsilon == 0
    ledger.declare_account(account("20"), *OFFICER, "sum")
    for number in (3, 4):
        ledger.reserve(of_window(number, f"w{number}", "2"))
        claimed = book.claim("/out", f"r{number}", "k", units(["c2", f"c{number}"]))
        assert claimed.n_left_out == number - 3  # those that are known are left out all the same
    ledger.reserve(of_window(3, "w3", "2"))  # run again
    assert str(ledger.balance("a").spent_epsilon) == "14"
