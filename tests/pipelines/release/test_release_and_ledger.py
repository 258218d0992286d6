"""No release without its spend, whatever fails: the disk, the ledger, the key store, the budget."""

import json
from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.support.examples import examples_of, rigorous_examples
from tests.support.releasing import (
    Place,
    counting_charges,
    key_files,
    ledger_entries,
    small_release,
    tracecloak,
    visible,
)
from tests.support.tiers import each_row
from tracecloak.anonymizers.accounting.composition import total
from tracecloak.anonymizers.registry import METHODS
from tracecloak.pipelines.configuration.config import ReleaseConfig
from tracecloak.pipelines.configuration.plan import resolve
from tracecloak.pipelines.keys.receipts import Receipt
from tracecloak.pipelines.ledger.entries import reservation_of
from tracecloak.pipelines.ledger.ledger import Ledger
from tracecloak.pipelines.release.values import manifest_of
from tracecloak.pipelines.runners import on_beam
from tracecloak.transforms.publish.release_folder import ReleaseFolder
from tracecloak.transforms.sources import EventSource


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
def place(tmp_path: Path) -> Unread:
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
    place: Unread, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
    is_shared: bool, given: list[str], told: str,
) -> None:  # fmt: skip
    shared = property(lambda _: is_shared, lambda *_: None)  # whatever a ledger finds itself
    monkeypatch.setattr(Ledger, "is_shared", shared, raising=False)
    monkeypatch.setattr(on_beam, "check_ready", lambda _: None)  # whatever is installed
    place.refused(2, "--runner", "DataflowRunner", *given)
    assert told in capsys.readouterr().err


# --- Budgets --------------------------------------------------------------------------------------


def test_charges_add_up_to_the_cap_and_no_further(
    place: Unread, capsys: pytest.CaptureFixture[str]
) -> None:
    accounts = place.folder / "accounts.yaml"
    accounts.write_text(
        "accounts:\n"
        "  a: {epsilon: 20, delta: 3e-5, unit: case}\n"
        "  free: {epsilon: null, delta: null, unit: case}\n"
    )
    capped = ("--accounts", accounts, "--account", "a")
    assert place.run(*capped) == 0
    assert place.run(*capped) == 0  # done already, so it costs nothing
    assert place.run(*capped, "--release_id", "r2") == 0  # another draw, so it adds up
    assert place.run(*capped) == 0
    place.refused(4, *capped, "--release_id", "s")
    assert "epsilon cap 20, spent 16, asked 8, remaining 4" in capsys.readouterr().err
    assert place.run(*capped, "--release_id", "s", "--epsilon", "4") == 0
    place.refused(4, *capped, "--release_id", "t", "--epsilon", "0.1")
    assert "epsilon cap 20, spent 20, asked 0.1, remaining 0" in capsys.readouterr().err
    assert place.run(*capped) == 0  # on an account that has nothing left
    # Another population's account has its own cap.
    assert place.run("--release_id", "t", "--account", "b") == 0
    charged = counting_charges(place.keys)
    assert [(e.account, e.epsilon) for e in charged] == [*zip("aaab", "8848", strict=True)]
    assert all(entry.action == "commit" for entry in charged)
    # Catches a charge of 0 for what has no finite epsilon, which is recorded where there is no cap.
    amun = ["--method", "amun", "--accounts", accounts, "--account", "free", "--release_id", "f"]
    given = small_release(place.folder)
    assert tracecloak(*given[: given.index("--method")], *amun) == 0
    assert (counting_charges(place.keys)[-1].epsilon, charged[-1].delta) == (None, "0.00001")


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
