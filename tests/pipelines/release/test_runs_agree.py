"""However a release is run, it has the recorded bytes: on Beam, in little memory, in shards."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest

from tests.golden.elsewhere import expected_of
from tests.golden.releases import Digests, as_json, release, releases_of_methods
from tests.support.cramped import cramped
from tests.support.releasing import (
    counting_charges,
    csv_log,
    digests,
    fix_key,
    manifest,
    placed,
    tracecloak,
)
from tests.support.tiers import at_night
from tracecloak.anonymizers.amun.method import Amun
from tracecloak.anonymizers.registry import METHODS
from tracecloak.transforms.batch import read

RELEASES = releases_of_methods()
# Every way of counting, deciding and writing at least once; of individuals, and with all bought.
OF_EACH_KIND = (
    *("amun 0", "variant-histogram 1", "private-log 1", "private-indicators 2"),
    *("private-log 2", "private-dfg 1", "auto-variants 2", "sacofa 2", "sapa 1", "pripel 1"),
    *("tlkc 1", "process-tree 3"),
)
BY_DAY = OF_EACH_KIND[:4]
BEAM = {"runner": "FnApiRunner"}


@pytest.fixture(autouse=True)
def same_key(monkeypatch: pytest.MonkeyPatch) -> None:
    fix_key(monkeypatch)


def released(folder: Path, name: str, *flags: object, **changes: Any) -> dict[str, Digests]:
    return release(folder, *RELEASES[name], *flags, n_files=3, **changes)


def of_the_log(found: dict[str, Digests]) -> dict[str, list[str]]:
    """The digests but that of the manifest, which names Beam: its runner may count again."""
    return {path: of for path, of in as_json(found).items() if path != "manifest.json"}


@pytest.mark.parametrize(
    ("name", "shards"),
    [
        (name, n) if name in BY_DAY and n == 7 else at_night(name, n)
        for name in RELEASES for n in ((1, 7, 16) if name in OF_EACH_KIND else (7,))
    ],
)  # fmt: skip
def test_a_release_has_the_recorded_bytes_on_beam_and_in_little_memory(
    tmp_path: Path, name: str, shards: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Catches noise, a bought choice or a sample of cases that depends on how the log is spread."""
    monkeypatch.setattr(read, "PIECE_BYTES", 10_000)
    if shards == 1:
        monkeypatch.setattr(read, "_MOST_FILES", 1)
    expected = dict(expected_of([name])[name])
    with cramped():
        assert as_json(released(tmp_path / "few", name, shards=13, workers=2)) == expected
    expected.pop("manifest.json", None)
    assert of_the_log(released(tmp_path / "beam", name, **BEAM, shards=shards)) == expected


@pytest.mark.parametrize("name", ["amun 0", at_night("private-log 2")])
def test_a_release_has_the_same_bytes_where_bundles_are_retried(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One fails after it has drawn its noise."""
    kind = type(METHODS[name.split()[0]])
    draw, failed = ("apply" if kind is Amun else "generate"), []
    drawn = getattr(kind, draw)

    def failing_once(*given: Any) -> Any:
        made = drawn(*given)
        if not failed:
            failed.append(made)
            raise RuntimeError("try again")
        return made

    monkeypatch.setattr(kind, draw, failing_once)
    found = of_the_log(released(tmp_path / "a", name, runner="BundleBasedDirectRunner"))
    assert found == {p: d for p, d in expected_of([name])[name].items() if p != "manifest.json"}
    assert failed


PROCESSES = ("--direct_running_mode", "multi_processing", "--direct_num_workers", 2)


@pytest.mark.slow
def test_a_release_has_the_same_bytes_from_worker_processes(tmp_path: Path) -> None:
    """Catches what a worker process knows otherwise: the key, a hash's seed, an import."""
    released(tmp_path, "private-dfg 1")
    first = digests(tmp_path / "out" / "run_id=golden")
    again = ("--output", tmp_path / "again", "--key_store", tmp_path / "others", *PROCESSES)
    assert tracecloak("release", tmp_path / "release.yaml", "--runner", "FnApiRunner", *again) == 0
    assert digests(tmp_path / "again" / "run_id=golden") == first


def test_a_release_depends_on_its_events_and_its_name(tmp_path: Path) -> None:
    """The control of what is compared above: noise does not ignore the input."""
    name = "variant-histogram 1"
    expected = as_json(released(tmp_path / "a", name))
    assert expected == expected_of([name])[name]
    log = tmp_path / "a" / "log" / "0.csv"
    log.write_text("".join(log.read_text().splitlines(keepends=True)[:-1]))  # one event less
    other = ("--output", tmp_path / "b", "--key_store", tmp_path / "keys")
    for changes, folder in (((), "run_id=golden"), (("--release_id", "s"), "run_id=s")):
        assert tracecloak("release", tmp_path / "a" / "release.yaml", *other, *changes) == 0
        first = digests(tmp_path / "a" / "out" / "run_id=golden")
        assert digests(tmp_path / "b" / folder)["variants.json"] != first["variants.json"]


# --- Which driver it is ---------------------------------------------------------------------------


def test_it_is_in_memory_unless_a_runner_or_flags_of_beam_are_given(tmp_path: Path) -> None:
    """Catches a driver that follows from anything else, and one that makes another release."""
    first, other = tmp_path / "first", tmp_path / "other"
    released(first, "amun 0", runner=None)
    released(other, "amun 0", "--direct_num_workers", 1, runner=None)
    made = first / "out" / "run_id=golden"
    assert digests(other / "out" / "run_id=golden") == digests(made) != {}
    told, expected = manifest(other / "out" / "run_id=golden"), manifest(made)
    assert (told["tool"].pop("beam"), expected["tool"].pop("beam")) == (beam.__version__, None)
    barriers = [one["randomness"].pop("unsafe_barrier") for one in (told, expected)]
    assert barriers == [True, False] and told == expected
    before = {path: path.stat().st_mtime_ns for path in made.rglob("*")}
    released(first, "amun 0", "--runner", "FnApiRunner")
    assert before == {path: path.stat().st_mtime_ns for path in made.rglob("*")}
    assert len(counting_charges(first / "keys")) == 1


def test_both_drivers_end_and_are_measured_alike(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [(f"c{n // 2}", "A", f"2026-01-01T00:00:{n:02d}Z") for n in range(40)]
    logs = {"good": rows, "bad": [*rows, *(("x", "A", "soon") for _ in range(40))], "empty": []}
    told = []
    for runner in ("InMemory", "FnApiRunner"):
        of_runner = []
        for name, of_log in logs.items():
            place = tmp_path / runner / name
            place.mkdir(parents=True)
            log = csv_log(place / "log.csv", of_log)
            pretsa = ("--method", "pretsa", "--k", 2, "--t", 1, "--metrics", place / "run.prom")
            code = tracecloak(*placed(place, log, *pretsa, "--runner", runner))
            seen = capsys.readouterr()
            lines = [line for line in seen.out.splitlines() if not line.startswith("took")]
            lines += [line for line in seen.err.splitlines() if line.startswith("tracecloak: ")]
            metrics = [
                line.partition("}")[0] for line in (place / "run.prom").read_text().splitlines()
            ]
            said = re.sub(r"\b[0-9a-f]{8}\b", "", "\n".join(lines))  # of the place of the output
            of_runner.append((code, said.replace(str(place), ""), metrics))
        told.append(of_runner)
    assert [code for code, _, _ in told[0]] == [0, 3, 5]
    assert told[0] == told[1]
