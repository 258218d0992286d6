"""Releases that were cut off and go on, and what they cost."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal

import pytest

from tests.support.examples import examples_of, rigorous_examples
from tests.support.releasing import (
    Place,
    counting_charges,
    csv_log,
    digests,
    fix_key,
    key_files,
    ledger_entries,
    small_release,
    small_rows,
    tracecloak,
    visible,
)
from tests.support.terminal import watch
from tests.support.tiers import each_row
from tracecloak.anonymizers.accounting import composition
from tracecloak.anonymizers.accounting.composition import Spend, total
from tracecloak.anonymizers.registry import METHODS
from tracecloak.anonymizers.variants.method import VariantHistogramParams
from tracecloak.pipelines.configuration import plan as plans
from tracecloak.pipelines.configuration.config import ReleaseConfig
from tracecloak.pipelines.configuration.plan import resolve
from tracecloak.pipelines.keys.receipts import Receipt
from tracecloak.pipelines.ledger.database import LedgerUnavailable
from tracecloak.pipelines.ledger.entries import reservation_of
from tracecloak.pipelines.ledger.ledger import Ledger
from tracecloak.pipelines.release.opening import given_then
from tracecloak.pipelines.release.values import manifest_of
from tracecloak.pipelines.runners import on_beam
from tracecloak.schemas.errors import UsageError
from tracecloak.transforms.publish.release_folder import ReleaseFolder
from tracecloak.transforms.sources import EventSource


class Folder(Place):
    """A folder of days that grows, and the command that releases all of it."""

    def __init__(self, tmp_path: Path) -> None:
        super().__init__(tmp_path, "--epsilon", 8, "--delta", "1e-5")
        self.log = self.folder / "days"
        self.log.mkdir()
        self.day("b", 0)
        self.day("c", 20)

    def day(self, name: str, first: int) -> Path:
        rows = [row for row in small_rows(60) if first <= int(row[0].split("-")[1]) < first + 20]
        return csv_log(self.log / f"{name}.csv", rows)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Folder:
    fix_key(monkeypatch)
    return Folder(tmp_path)


def test_files_that_came_later_are_not_read(
    folder: Folder,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    other = ("--output", tmp_path / "o", "--key_store", tmp_path / "k")
    assert folder.run(*other) == 0
    folder.cut_off()
    folder.day("a", 40)  # first in the order of names, which breaks ties
    folder.day("d", 40)
    watch(monkeypatch)
    assert folder.run() == 0
    assert "files that came after the release was begun are not read: 2" in capsys.readouterr().err
    assert digests(folder.release) == digests(tmp_path / "o" / "run_id=r")
    assert folder.actions == ["reserve", "draw", "commit"]


@pytest.mark.parametrize("change", ["changed", "gone"])
def test_a_file_that_changed_or_vanished_ends_it(
    folder: Folder, change: str, capsys: pytest.CaptureFixture[str]
) -> None:
    folder.cut_off()
    day = folder.log / "b.csv"
    before = day.read_bytes()
    if change == "gone":
        day.unlink()
    else:
        day.write_bytes(before.replace(b"case-1,", b"case-2,", 1))  # of the same size
    assert folder.run() == 2
    told = capsys.readouterr().err
    assert f"input '{day}' is {change} since" in told
    assert "tracecloak ledger forfeit" in told
    assert visible(folder.out) == []
    assert folder.actions == ["reserve", "draw"]
    day.write_bytes(before)
    assert folder.run() == 0


@pytest.mark.parametrize("what", ["configuration", "version"])
def test_another_configuration_or_version_cannot_finish_it(
    folder: Folder, what: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Catches noise of the same key at another scale: their difference has less noise than either.

    Another version may draw otherwise.
    """
    folder.cut_off()
    with monkeypatch.context() as patch:
        if what == "version":
            patch.setattr(type(METHODS["variant-histogram"]), "version", 2)
            assert folder.run() == 6
        else:
            assert folder.run("--epsilon", 4) == 2
    told = capsys.readouterr().err
    assert "drew noise before it was cut off" in told
    assert {
        "configuration": "and the configuration changed since",
        "version": "or give it up, which leaves epsilon 8 spent",
    }[what] in told
    assert folder.actions == ["reserve", "draw"]
    assert folder.run() == 0


def cut_off_before_it_drew(folder: Folder, *flags: object) -> None:
    """As a kill would leave it: nothing is given back."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tracecloak.pipelines.budget.registry.ReleaseRegistry.void", lambda *_: False)
        folder.cut_off(*flags, owner=EventSource, step="read")
    assert folder.actions == ["reserve"]


def test_what_cannot_be_given_back_is_not_paid_twice(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    cut_off_before_it_drew(folder)

    def busy(*_: object) -> None:
        raise LedgerUnavailable("the ledger is locked")

    with monkeypatch.context() as patch:
        patch.setattr(Ledger, "void", busy)
        assert folder.run("--account", "other") == 75
        patch.setattr(Ledger, "void", lambda *_: False)  # another run drew noise of it since
        assert folder.run("--account", "other") == 2
    assert folder.actions == ["reserve"]
    assert folder.run("--account", "other") == 0
    assert [(e.account, e.action) for e in ledger_entries(folder.keys)] == [
        ("default", "reserve"), ("default", "void"),
        ("other", "reserve"), ("other", "draw"), ("other", "commit"),
    ]  # fmt: skip


@pytest.mark.parametrize("change", ["moved", "staging area"])
def test_what_was_cut_off_before_it_drew_forgets_where_it_was(
    folder: Folder, tmp_path: Path, change: str
) -> None:
    cut_off_before_it_drew(folder, "--staging_area", tmp_path / "first")
    flags: tuple[object, ...] = ("--staging_area", tmp_path / "first")
    if change == "moved":
        folder.log = folder.log.rename(tmp_path / "moved")
    else:
        flags = ("--staging_area", tmp_path / "second")
    folder.cut_off(*flags)
    assert folder.actions == ["reserve", "void", "reserve", "draw"]
    assert folder.run(*flags) == 0
    assert folder.actions[3:] == ["draw", "commit"]
    assert [path for area in ("first", "second") for path in (tmp_path / area).glob("*")] == []


# --- What it costs --------------------------------------------------------------------------------


@pytest.fixture
def cheaper() -> Iterator[pytest.MonkeyPatch]:
    """A later build that draws the same and reckons half the delta."""
    with pytest.MonkeyPatch.context() as patch:
        total = plans.total

        def tighter(spends: Sequence[Spend]) -> tuple[Fraction, Fraction]:
            epsilon, delta = total(spends)
            return epsilon, delta / 2

        patch.setattr(plans, "total", tighter)
        yield patch


def test_what_was_drawn_is_not_paid_again_at_another_price(
    folder: Folder, cheaper: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plans, "total", composition.total)
        folder.cut_off()
    assert folder.run() == 0
    assert [(e.action, e.delta) for e in ledger_entries(folder.keys)] == [
        (action, "0.00001") for action in ("reserve", "draw", "commit")
    ]
    assert "computes another price for release r than the one that it drew at" in caplog.text


# --- Made by an earlier version -------------------------------------------------------------------

TRUNCATED, LAPLACE = ("--noise", "truncated"), ("--noise", "laplace")


@pytest.mark.parametrize(
    ("then", "now", "code"),
    [
        ((), (), 0),  # whatever the defaults are
        (TRUNCATED, TRUNCATED, 0),  # which is the default since
        (LAPLACE, LAPLACE, 0),  # which was the default
        ((), LAPLACE, 0),
        (TRUNCATED, (), 0),
        (LAPLACE, (), 0),  # as if it had been left out
        ((), TRUNCATED, 2),
        (TRUNCATED, LAPLACE, 2),
        ((), ("--epsilon", 4), 2),
        (TRUNCATED, (*TRUNCATED, "--formats", "csv"), 2),
    ],
)
def test_a_finished_release_is_recognised_by_a_later_version_with_other_defaults(
    folder: Folder,
    then: tuple[object, ...],
    now: tuple[object, ...],
    code: int,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert folder.run(*then) == 0
    before = digests(folder.release)
    method = type(METHODS["variant-histogram"])

    class Later(VariantHistogramParams):
        noise: Literal["laplace", "truncated"] = "truncated"
        min_count: int = 0

    with monkeypatch.context() as patch:
        patch.setattr(method, "Params", Later)
        patch.setattr(method, "version", 2)
        capsys.readouterr()
        assert folder.run(*now) == code
        told = capsys.readouterr()
        assert ("already released" in told.out) == (code == 0)
        assert ("and the configuration changed since" in told.err) == (code == 2)
        if code == 0:  # of a parameter that is new, another value is another release
            assert folder.run(*now, "--min_count", 0) == 0
            assert folder.run(*now, "--min_count", 1) == 2
    assert digests(folder.release) == before
    assert folder.actions == ["reserve", "draw", "commit"]


@each_row("name", METHODS)
def test_a_configuration_was_given_then_what_it_is_given_now_if_nothing_changed(name: str) -> None:
    for example in examples_of(METHODS[name]):
        body = {"log": "a.csv", "output": "out", "method": name, "columns": {"individual_id": "x"}}
        plan = resolve(ReleaseConfig(**body, params=json.loads(json.dumps(example))))
        params = plan.params
        found = given_then(plan, params.given(), json.loads(json.dumps(params.resolved())))
        assert found == params.given()
        assert plan.digest_with(found) == plan.digest


# --- Where it is built ----------------------------------------------------------------------------


@pytest.mark.skipif(not Path("/dev/shm").is_dir(), reason="needs a second file system")
def test_on_another_file_system_it_is_refused_before_anything_is_paid(
    folder: Folder, capsys: pytest.CaptureFixture[str]
) -> None:
    area = Path("/dev/shm") / f"tracecloak-{os.getpid()}"
    if area.parent.stat().st_dev == folder.log.stat().st_dev:
        pytest.skip("needs a second file system")
    try:
        assert folder.run("--staging_area", area) == 2
    finally:
        area.rmdir()
    assert "is on another file system than the output; name another" in capsys.readouterr().err
    assert ledger_entries(folder.keys) == key_files(folder.keys) == []


def test_a_workplace_of_somebody_else_is_not_used(tmp_path: Path) -> None:
    area = tmp_path / "area"
    area.mkdir()
    folder = ReleaseFolder(str(tmp_path / "out"), "r", str(area))
    Path(folder.workplace).symlink_to(tmp_path)
    with pytest.raises(UsageError, match="belongs to somebody else"):
        folder.prepare()


# --- Releases and their ledger --------------------------------------------------------------------


class Unread(Place):
    """A release whose command is refused before it reads an event."""

    def refused(self, code: int, *flags: object) -> None:
        """It leaves everything as it was."""

        def read(*_: object) -> None:
            raise AssertionError("the input was read")

        before = self._all()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(EventSource, "read", read)
            assert self.run(*flags) == code
        assert self._all() == before
        assert not list(self.folder.glob("_incomplete-*/s-*"))

    def _all(self) -> tuple[object, ...]:
        keys = self.keys
        return (
            visible(self.out), ledger_entries(keys), key_files(keys), sorted(keys.rglob("*.json"))
        )  # fmt: skip


@pytest.fixture
def a_place(tmp_path: Path) -> Unread:
    return Unread(tmp_path, "--epsilon", "8", "--delta", "1e-5", "--parts", 2)


# --- A ledger that cannot be used -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("is_shared", "given", "told"),
    [
        *((False, ["--runner", f"{name}Runner"], "ledger must be a shared database")
          for name in ("Dataflow", "Flink", "Spark")),
        (True, [], "with worker_keys, such as gs://BUCKET/keys"),
        (True, ["--worker_keys", "/on/this/machine"], "with worker_keys, such as gs://BUCKET/keys"),
        (True, ["--worker_keys", "nowhere://b"], "'nowhere://b' is on a file system that"),
    ],
)  # fmt: skip
def test_a_ledger_or_keys_on_this_machine_are_refused_for_a_runner_that_leaves_it(
    a_place: Unread, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
    is_shared: bool, given: list[str], told: str,
) -> None:  # fmt: skip
    shared = property(lambda _: is_shared, lambda *_: None)  # whatever a ledger finds itself
    monkeypatch.setattr(Ledger, "is_shared", shared, raising=False)
    monkeypatch.setattr(on_beam, "check_ready", lambda _: None)  # whatever is installed
    a_place.refused(2, "--runner", "DataflowRunner", *given)
    assert told in capsys.readouterr().err


# --- Budgets --------------------------------------------------------------------------------------


def test_charges_add_up_to_the_cap_and_no_further(
    a_place: Unread, capsys: pytest.CaptureFixture[str]
) -> None:
    accounts = a_place.folder / "accounts.yaml"
    accounts.write_text(
        "accounts:\n"
        "  a: {epsilon: 20, delta: 3e-5, unit: case}\n"
        "  free: {epsilon: null, delta: null, unit: case}\n"
    )
    capped = ("--accounts", accounts, "--account", "a")
    assert a_place.run(*capped) == 0
    assert a_place.run(*capped) == 0  # done already, so it costs nothing
    assert a_place.run(*capped, "--release_id", "r2") == 0  # another draw, so it adds up
    assert a_place.run(*capped) == 0
    a_place.refused(4, *capped, "--release_id", "s")
    assert "epsilon cap 20, spent 16, asked 8, remaining 4" in capsys.readouterr().err
    assert a_place.run(*capped, "--release_id", "s", "--epsilon", "4") == 0
    a_place.refused(4, *capped, "--release_id", "t", "--epsilon", "0.1")
    assert "epsilon cap 20, spent 20, asked 0.1, remaining 0" in capsys.readouterr().err
    assert a_place.run(*capped) == 0  # on an account that has nothing left
    # Another population's account has its own cap.
    assert a_place.run("--release_id", "t", "--account", "b") == 0
    charged = counting_charges(a_place.keys)
    assert [(e.account, e.epsilon) for e in charged] == [*zip("aaab", "8848", strict=True)]
    assert all(entry.action == "commit" for entry in charged)
    # Catches a charge of 0 for what has no finite epsilon, which is recorded where there is no cap.
    amun = ["--method", "amun", "--accounts", accounts, "--account", "free", "--release_id", "f"]
    given = small_release(a_place.folder)
    assert tracecloak(*given[: given.index("--method")], *amun) == 0
    assert (counting_charges(a_place.keys)[-1].epsilon, charged[-1].delta) == (None, "0.00001")


# --- What a release says, what it is charged, and what it spends are the same numbers -------------


LONG = {"epsilon": "1.23456789012", "delta": "9.87654321098e-9"}  # more digits than a float keeps
CHOSEN = [
    ("variant-histogram", LONG),
    ("private-dfg", {**LONG, "epsilon": "312.000000007", "buy_vocabulary": True}),
    *((name, examples_of(METHODS[name])[number]) for name, number in rigorous_examples()),
]  # fmt: skip


def check_numbers(name: str, params: Mapping[str, Any]) -> None:
    """What is promised, charged and spent is what was asked, to the last digit.

    The manifest is read back from its JSON text, numbers as the decimals that stand there.
    """
    config = ReleaseConfig(
        log=("x.csv",), output="/nowhere", method=name, params=dict(params),
        columns={"individual_id": "x"} if "max_cases_per_individual" in params else {},
    )  # fmt: skip
    folder, plan = ReleaseFolder("/nowhere", "r"), resolve(config)
    begun = Receipt("r", "/nowhere", "", "", "k", "2026-11-23")
    run: Any = SimpleNamespace(
        plan=plan, receipt=begun, concerns=(),
        driver=SimpleNamespace(beam_version=None), source=SimpleNamespace(is_by_name=False),
    )  # fmt: skip
    text = json.dumps(manifest_of(run).to_json(()))
    said = json.loads(text, parse_float=Fraction, parse_int=Fraction)
    charged = reservation_of(plan, folder, "k")
    given: Any = plan.params
    asked = (Fraction(given.epsilon), Fraction(getattr(given, "delta", 0)))
    assert asked[0] == Fraction(params.get("epsilon", asked[0]))
    assert (charged.epsilon, charged.delta) == asked
    assert total(METHODS[name].spends(given)) == asked
    assert (said["guarantee"]["epsilon"], said["guarantee"]["delta"]) == asked
    columns = charged.columns()
    assert (Fraction(columns["epsilon"]), Fraction(columns["delta"])) == asked
    in_ledger = json.loads(columns["spends"])
    assert in_ledger == said["spends"] == list(charged.spends)
    for kind, sum_asked in zip(("epsilon", "delta"), asked, strict=True):
        assert sum(Fraction(part[kind]) for part in in_ledger) == sum_asked
    unit = "individual" if params.get("max_cases_per_individual") else "case"
    assert said["guarantee"]["unit"] == charged.unit == columns["unit"] == unit


@each_row(("name", "params"), CHOSEN)
def test_a_release_promises_what_it_spends_and_is_charged(
    name: str, params: Mapping[str, Any]
) -> None:
    check_numbers(name, params)


@pytest.mark.parametrize(
    "where",
    [
        "tracecloak.pipelines.configuration.plan.total",
        "tracecloak.anonymizers.rigorous.params.total",
    ],
)
def test_the_comparison_of_the_numbers_notices_the_smallest_difference(
    monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    """The control: a charge, or a promise, that is off by 1e-11."""
    check_numbers("variant-histogram", LONG)

    def wrong(spends: Any) -> tuple[Fraction, Fraction]:
        epsilon, delta = total(spends)
        return epsilon + Fraction(1, 10**11), delta

    monkeypatch.setattr(where, wrong)
    with pytest.raises(AssertionError):
        check_numbers("variant-histogram", LONG)
