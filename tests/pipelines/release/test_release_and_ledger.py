"""No release without its spend, whatever fails: the disk, the ledger, the key store, the budget."""

import contextlib
import json
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.releasing import (
    counting_charges,
    digests,
    individual_log,
    key_files,
    ledger_entries,
    manifest,
    operator_folder,
    small_rows,
    tracecloak,
    visible,
    with_flag,
)
from tests.support.tiers import at_night
from tracecloak.anonymizers.accounting.composition import total
from tracecloak.anonymizers.registry import method_named
from tracecloak.pipelines.configuration.config import ReleaseConfig
from tracecloak.pipelines.keys.key_store import KeyStore
from tracecloak.pipelines.keys.receipts import Receipt
from tracecloak.pipelines.ledger.database import LedgerError
from tracecloak.pipelines.ledger.ledger import Ledger
from tracecloak.pipelines.ledger.snapshot import problems
from tracecloak.pipelines.release.values import manifest_of, reservation_of
from tracecloak.schemas.errors import UsageError
from tracecloak.transforms.publish import release_folder
from tracecloak.transforms.publish.release_folder import ReleaseFolder
from tracecloak.transforms.sources import EventSource

FULL = "/dev/full"  # the kernel's: every write ends with ENOSPC


def actions(keys: Path) -> list[str]:
    return [entry.action for entry in ledger_entries(keys)]


def nothing_was_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """From here on, whoever reads an event fails the test."""

    def read(*_: object) -> None:
        raise AssertionError("the input was read")

    monkeypatch.setattr(EventSource, "read", read)


def check_finished(out: Path, keys: Path) -> None:
    """The release is whole, the only one, charged once, and nothing is left over."""
    said = manifest(out / "run_id=r")
    assert digests(out / "run_id=r") == {o["path"]: o["sha256"] for o in said["outputs"]}
    entries = ledger_entries(keys)
    assert problems(entries) == []
    (own,) = counting_charges(keys)
    assert own.action == "commit"
    assert own.key_fingerprint == said["randomness"]["key_fingerprint"]
    assert key_files(keys) == []
    assert json.loads((out / "latest.json").read_text())["run_id"] == "r"
    assert (operator_folder(keys) / "statement.md").stat().st_size


# --- A full disk ----------------------------------------------------------------------------------


@contextlib.contextmanager
def full_at(number: int) -> Iterator[list[str]]:
    """Lets the disk be full for the file that is created as number so many, from 1; 0: never.

    Yields the paths of all files that are created.
    """
    created: list[str] = []
    original = release_folder.create

    def create(path: str, *arguments: Any, **named: Any) -> Any:
        created.append(path)
        if len(created) != number:
            return original(path, *arguments, **named)
        original(path, *arguments, **named).close()  # the name still fits
        return open(FULL, "wb")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(release_folder, "create", create)
        yield created


METHODS = {
    "variant-histogram": (),
    "private-dfg": ("--vocabulary", "names.txt", "--l2_clip", "4", "--durations"),
}


@pytest.mark.parametrize("method", ["private-dfg", at_night("variant-histogram")])
def test_a_disk_that_is_full_for_any_one_file_shows_nothing_or_all_and_the_next_run_works(
    common: list[object],
    tmp_path: Path,
    log: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    method: str,
) -> None:
    """Catches a release, a key or a spend that a failed write leaves, at each file in turn.

    One record is malformed, so the list of such records is among the files.
    """
    monkeypatch.chdir(tmp_path)
    (tmp_path / "names.txt").write_text("A\nB\nC\nD\n")
    log.write_text(log.read_text() + "case-1,,2026-01-01T10:00:00Z\n")
    base = [*common, "--method", method, *METHODS[method], "--max_error_ratio", "0.5"]

    def places(number: int) -> tuple[list[object], Path, Path]:
        folder = tmp_path / f"run{number}"
        flags = ["--output", folder / "out", "--key_store", folder / "keys"]
        return [*base, *flags], folder / "out", folder / "keys"

    command, out, keys = places(0)
    with full_at(0) as created:
        assert tracecloak(*command) == 0
    check_finished(out, keys)
    names = [path.removeprefix(f"{out}/") for path in created]
    own = ReleaseFolder(str(out), "r", store=KeyStore(keys).identity()).workplace
    n_before = names.index(f"{own}/release/manifest.json") + 1
    assert names[n_before:] == [f"{own}/latest.json"]
    for number in range(1, len(names) + 1):
        command, out, keys = places(number)
        with full_at(number):
            code = tracecloak(*command)
        told = capsys.readouterr().err
        assert "No space left on device" in told, names[number - 1]
        if number <= n_before:
            assert code == 6
            assert "nothing was released" in told
            assert visible(out) == []
            has_drawn = "/release/" in names[number - 1]  # else it notes what it reads
            assert actions(keys) == ["reserve", "draw" if has_drawn else "void"]
            assert len(key_files(keys)) == len(counting_charges(keys)) == has_drawn
        else:
            assert code == 7
            assert "is complete, but a step after it failed" in told
            assert len(counting_charges(keys)) == 1
        assert tracecloak(*command) == 0
        check_finished(out, keys)


# --- A ledger that cannot be used -----------------------------------------------------------------


def test_a_refusal_after_an_unfinished_run_leaves_that_runs_key(
    common: list[object], tmp_path: Path, out: Path, keys: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Catches a key dropped under an open charge, by a run that asks another account."""
    accounts = tmp_path / "accounts.yaml"
    accounts.write_text(
        "accounts:\n  rich: {epsilon: 8, delta: 1e-5, unit: case}\n"
        "  poor: {epsilon: 1, delta: 1e-5, unit: case}\n"
    )
    capped = [*common, "--accounts", accounts]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Ledger, "void", _raising(lambda: LedgerError("does not answer")))
        patch.setattr(ReleaseFolder, "commit", _raising(ValueError))
        assert tracecloak(*capped, "--account", "rich") == 6
    assert tracecloak(*capped, "--account", "poor") == 2
    assert len(key_files(keys)) == 1
    assert tracecloak(*capped, "--account", "rich") == 0  # a second charge would be refused
    check_finished(out, keys)


def test_an_unreachable_server_ends_the_run_with_75_and_its_password_is_not_shown(
    common: list[object],
    out: Path,
    keys: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Catches a run that goes on without its ledger, and a secret in a message."""
    pytest.importorskip("psycopg")
    nothing_was_read(monkeypatch)
    # Port 1 is tcpmux's; nothing listens there.
    monkeypatch.setenv("LEDGER", "postgresql+psycopg://user:s3cret@127.0.0.1:1/ledger")
    assert tracecloak(*common, "--ledger", "env:LEDGER") == 75
    told = capsys.readouterr().err
    assert "does not answer; start the server, or correct the URL" in told
    assert "s3cret" not in told
    assert visible(out) == key_files(keys) == []


@pytest.mark.parametrize("runner", ["DataflowRunner", "FlinkRunner", "SparkRunner"])
def test_a_ledger_on_this_machine_is_refused_for_a_runner_that_leaves_it(
    common: list[object],
    out: Path,
    keys: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    runner: str,
) -> None:
    """Catches spending that no other machine sees."""
    nothing_was_read(monkeypatch)
    assert tracecloak(*common, "--runner", runner) == 2
    assert "an SQLite ledger does not; give the URL of a shared database" in capsys.readouterr().err
    assert visible(out) == key_files(keys) == ledger_entries(keys) == []


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ([], "with worker_keys, such as gs://BUCKET/keys"),
        (["--worker_keys", "/on/this/machine"], "with worker_keys, such as gs://BUCKET/keys"),
        (["--worker_keys", "nowhere://bucket"], "'nowhere://bucket' is on a file system that"),
    ],
)
def test_dataflow_without_a_place_for_keys_is_refused(
    common: list[object],
    out: Path,
    keys: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    given: list[str],
    told: str,
) -> None:
    """Catches a job that is paid for and fails on its workers."""
    nothing_was_read(monkeypatch)
    monkeypatch.setattr(Ledger, "is_shared", True)
    assert tracecloak(*common, "--runner", "DataflowRunner", *given) == 2
    assert told in capsys.readouterr().err
    assert visible(out) == key_files(keys) == ledger_entries(keys) == []


# --- Budgets --------------------------------------------------------------------------------------


@pytest.fixture
def accounts(tmp_path: Path) -> Path:
    path = tmp_path / "accounts.yaml"
    path.write_text(
        "accounts:\n"
        "  a: {epsilon: 20, delta: 3e-5, unit: case}\n"
        "  free: {epsilon: null, delta: null, unit: case}\n"
        "  people: {epsilon: 20, delta: 3e-5, unit: individual}\n"
    )
    return path


def refused(
    command: list[object],
    code: int,
    told: str,
    out: Path,
    keys: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The command is refused before it reads, and leaves everything as it was."""
    before = (visible(out), ledger_entries(keys), key_files(keys), sorted(keys.rglob("*.json")))
    with pytest.MonkeyPatch.context() as patch:
        nothing_was_read(patch)
        assert tracecloak(*command) == code
    assert told in capsys.readouterr().err
    after = (visible(out), ledger_entries(keys), key_files(keys), sorted(keys.rglob("*.json")))
    assert before == after
    assert not list(out.parent.glob("_incomplete-*/s-*"))


def test_charges_add_up_to_the_cap_and_no_further(
    common: list[object],
    accounts: Path,
    out: Path,
    keys: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Catches a cap that is passed, and one that a re-run or a refused run uses up."""
    capped = [*common, "--accounts", accounts, "--account", "a"]
    assert tracecloak(*capped) == 0
    assert tracecloak(*capped) == 0  # done already, so it costs nothing
    assert tracecloak(*capped, "--release_id", "r2") == 0  # another draw, so it adds up
    assert tracecloak(*capped) == 0
    told = "epsilon cap 20, spent 16, asked 8, remaining 4"
    refused([*capped, "--release_id", "s"], 4, told, out, keys, capsys)
    assert tracecloak(*capped, "--release_id", "s", "--epsilon", "4") == 0
    told = "epsilon cap 20, spent 20, asked 0.1, remaining 0"
    refused([*capped, "--release_id", "t", "--epsilon", "0.1"], 4, told, out, keys, capsys)
    assert tracecloak(*capped) == 0  # on an account that has nothing left
    # Another population's account has its own cap.
    assert tracecloak(*common, "--release_id", "t", "--account", "b") == 0
    charged = counting_charges(keys)
    assert [(e.account, e.epsilon) for e in charged] == [*zip("aaab", "8848", strict=True)]
    assert all(entry.action == "commit" for entry in charged)


def test_the_cap_on_delta_holds_as_well(
    common: list[object],
    accounts: Path,
    out: Path,
    keys: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Catches a delta that nobody adds up."""
    capped = [*common, "--accounts", accounts, "--account", "a", "--epsilon", "1"]
    for number in range(3):
        assert tracecloak(*capped, "--release_id", f"d{number}") == 0
    told = "delta cap 0.00003, spent 0.00003, asked 0.00001, remaining 0"
    refused([*capped, "--release_id", "s"], 4, told, out, keys, capsys)


def test_a_method_without_epsilon_is_recorded_where_there_is_no_cap(
    common: list[object], accounts: Path, keys: Path
) -> None:
    """Catches a charge of 0 for what has no finite epsilon."""
    cut = common.index("--epsilon")
    published = [*common[:cut], *common[cut + 4 :], "--method", "amun"]
    assert tracecloak(*published, "--accounts", accounts, "--account", "free") == 0
    (charge,) = counting_charges(keys)
    assert (charge.epsilon, charge.delta) == (None, None)


def test_an_account_of_individuals_pays_for_a_release_of_individuals(
    common: list[object], tmp_path: Path, accounts: Path, keys: Path
) -> None:
    """Catches a release per individual that is charged per case."""
    log = individual_log(
        tmp_path / "people.csv", [(f"p{i % 20}", *row) for i, row in enumerate(small_rows(60))]
    )
    command = [*with_flag(common, "--log", log), "--individual_id", "person"]
    assert tracecloak(*command, "--accounts", accounts, "--account", "people") == 0
    (charge,) = counting_charges(keys)
    assert (charge.unit, charge.epsilon) == ("individual", "8")


# --- What a release says, what it is charged, and what it spends are the same numbers -------------


def decimal(rng: np.random.Generator, low: float, high: float, digits: int) -> str:
    """A random decimal, evenly in its logarithm, with so many digits."""
    return f"{np.exp(rng.uniform(np.log(low), np.log(high))):.{digits - 1}e}"


def random_configuration(rng: np.random.Generator, pool: list[tuple[str, str]]) -> dict[str, Any]:
    """A random configuration of either rigorous method.

    Gaussian noise takes its epsilon and delta from a pool, as its scales take long to find.
    """
    epsilon = decimal(rng, 1e-2, 1000, int(rng.integers(1, 13)))
    delta = decimal(rng, 1e-12, 9e-6, int(rng.integers(1, 13)))
    params: dict[str, Any] = {"epsilon": epsilon, "delta": delta}
    if rng.random() < 0.5:
        params["max_cases_per_individual"] = int(rng.integers(1, 4))
    if rng.random() < 0.2:
        params["max_cases"] = int(rng.integers(1, 100_000))
    if rng.random() < 0.2:
        params["noise"] = str(rng.choice(["laplace", "truncated"]))
        return {"method": "variant-histogram", "params": params}
    kind = rng.integers(5)
    if kind == 0:
        # Laplace noise, and nothing can be bought.
        length = int(rng.integers(1, 50))
        params |= {"delta": "0", "vocabulary": ("A", "B"), "max_trace_length": length}
        return {"method": "private-dfg", "params": params}
    params["epsilon"], params["delta"] = pool[rng.integers(len(pool))]
    params["max_cases_per_individual"] = (None, 1, 2)[rng.integers(3)]
    if kind in (1, 2):
        params["vocabulary"] = ("A", "B", "C")
    else:
        params["buy_vocabulary"] = True
    if kind in (1, 3):
        params["l2_clip"] = str(rng.choice(["4", "6.5"]))
    if rng.random() < 0.3:
        params |= {"durations": True, "n_duration_bins": 4}
    return {"method": "private-dfg", "params": params}


def check_numbers(chosen: dict[str, Any]) -> tuple[str, ...]:
    """What is promised, charged and spent is what was asked; returns the parts and the unit.

    The manifest is read back from its JSON text, numbers as the decimals that stand there.
    """
    config = ReleaseConfig(log=("x.csv",), output="/nowhere", **chosen)
    folder = ReleaseFolder("/nowhere", "r")
    text = json.dumps(
        manifest_of(config, Receipt("r", "/nowhere", "", "", "k", "2026-11-23")).to_json(())
    )
    said = json.loads(text, parse_float=Fraction, parse_int=Fraction)
    charged = reservation_of(config, folder, "k")
    asked = tuple(Fraction(chosen["params"][name]) for name in ("epsilon", "delta"))
    assert (charged.epsilon, charged.delta) == asked
    assert total(method_named(config.method).spends(config.method_params)) == asked
    assert (said["guarantee"]["epsilon"], said["guarantee"]["delta"]) == asked
    columns = charged.columns()
    assert (Fraction(columns["epsilon"]), Fraction(columns["delta"])) == asked
    in_ledger = json.loads(columns["spends"])
    assert in_ledger == said["spends"] == list(charged.spends)
    for name, sum_asked in zip(("epsilon", "delta"), asked, strict=True):
        assert sum(Fraction(part[name]) for part in in_ledger) == sum_asked
    has_individuals = chosen["params"].get("max_cases_per_individual") is not None
    unit = "individual" if has_individuals else "case"
    assert said["guarantee"]["unit"] == charged.unit == columns["unit"] == unit
    # Of a joint part, what pays together.
    parts = [one for part in in_ledger for one in (part.get("blocks", [part]))]
    parts += [one for part in in_ledger for one in part.get("choices", [])]
    return config.method, *(part["what"] for part in parts), unit


@pytest.mark.parametrize("n", [800, pytest.param(10_000, marks=pytest.mark.slow)])
def test_random_configurations_promise_what_they_spend_and_are_charged(n: int) -> None:
    """Catches a share that is rounded, forgotten, or charged otherwise than it is promised."""
    rng = np.random.default_rng(20260711)
    pool = [
        (decimal(rng, 5, 500, int(rng.integers(1, 13))), decimal(rng, 1e-9, 9e-6, 3))
        for _ in range(4)
    ]
    seen: dict[tuple[str, ...], int] = {}
    n_refused = 0
    for _ in range(n):
        chosen = random_configuration(rng, pool)
        try:
            kind = check_numbers(chosen)
        except UsageError as error:  # a public number of cases too large for the delta
            assert "delta must be at most 1/max_cases" in str(error)
            params = chosen["params"]
            assert Fraction(params["delta"]) > Fraction(1, params["max_cases"])
            n_refused += 1
            continue
        seen[kind] = seen.get(kind, 0) + 1
    # Every way to spend was there, and often: a histogram, graphs that buy names or a clip and have
    # durations or none of all this, and graphs of short cases with Laplace noise.
    assert len(seen) == 2 * (1 + 2**3 + 1)
    assert min(seen.values()) > 0.01 * n
    assert n_refused < 0.1 * n


@pytest.mark.parametrize(
    "where",
    ["tracecloak.pipelines.release.values.total", "tracecloak.anonymizers.rigorous.params.total"],
)
def test_the_comparison_of_the_numbers_notices_the_smallest_difference(
    monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    """The control: a charge, or a promise, that is off by 1e-11."""
    chosen = {"method": "variant-histogram", "params": {"epsilon": "1.2", "delta": "1e-6"}}
    check_numbers(chosen)

    def wrong(spends: Any) -> tuple[Fraction, Fraction]:
        epsilon, delta = total(spends)
        return epsilon + Fraction(1, 10**11), delta

    monkeypatch.setattr(where, wrong)
    with pytest.raises(AssertionError):
        check_numbers(chosen)


def _raising(error: Callable[[], BaseException]) -> Callable[..., None]:
    def fail(*_: object, **__: object) -> None:
        raise error()

    return fail
