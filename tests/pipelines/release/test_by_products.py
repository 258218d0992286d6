"""Whatever a rigorous release shows follows from what was decided with noise, from nothing else.

Each method releases two neighbouring logs. The second release is made to take the decisions of the
first: then everything else must be the same too, the number and size of files, the order of rows,
ids, manifest, statement and pictures, and what the command says. What a by-product takes from the
log itself, past the noise, would differ.
"""

from __future__ import annotations

import csv
import re
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import yaml

from tests.golden.releases import HEADER, log_file, run_example
from tests.support.examples import examples_of, rigorous_examples
from tests.support.record_files import WRITERS, Record, parquet, record
from tests.support.releasing import digests, tracecloak
from tests.support.same_decisions import take_the_same_decisions
from tests.support.tiers import at_night
from tracecloak.anonymizers.registry import METHODS
from tracecloak.transforms.publish import release_files

RIGOROUS = rigorous_examples()
FIRST = {name: min(n for other, n in RIGOROUS if other == name) for name, _ in RIGOROUS}


# One for each way of writing.
OF_EACH_KIND = ("auto-variants", "pripel-rigorous", "private-dfg", "private-log", "process-tree")


@pytest.fixture
def same_decisions(monkeypatch: pytest.MonkeyPatch) -> None:
    take_the_same_decisions(monkeypatch)


def shown(folder: Path, log: Path, method: str, number: int, capsys: Any) -> tuple[object, ...]:
    """Every file of a release by its digest, with the manifest, and what the command said."""
    folder.mkdir()
    assert run_example(folder, method, examples_of(METHODS[method])[number], log) == 0
    printed = capsys.readouterr()
    said = (printed.out + printed.err).replace(str(folder), "").replace(str(log), "")
    said = re.sub(
        r"(?<=/golden-)[0-9a-f]{8}\b", "", said
    )  # the operator's folder, by the output's place
    made = folder / "out" / "run_id=golden"
    # Times, and how much of a file was read, are of this run.
    lines = [
        re.sub(r"^\S+ \S+ ", "", line) for line in said.splitlines() if not line.startswith("took ")
    ]
    return digests(made), (made / "manifest.json").read_bytes(), sorted(lines)


def neighbours(folder: Path) -> tuple[Path, Path]:
    """A log, and the same with two cases more that differ from all others wherever one can."""
    one = log_file(folder)
    rows = one.read_text(encoding="utf-8").splitlines()
    other = folder / "other.csv"
    with other.open("w", encoding="utf-8", newline="") as stream:
        stream.write("\n".join(rows) + "\n")
        writer = csv.writer(stream)
        assert len(HEADER) == 8
        for step in range(70):
            activity, stamp = f"own {step % 7}", f"1999-01-{1 + step % 28:02}T00:00:{step % 60:02}Z"
            writer.writerow(["z", activity, stamp, "nobody", f"own {step}", -7, "own", 9e9])
        writer.writerow(["y", "A", "2199-12-31T23:59:59Z", "nobody", "", "", "", ""])
    return one, other


@pytest.mark.usefixtures("same_decisions")
@pytest.mark.parametrize(
    ("method", "number"),
    [(m, n) if FIRST[m] == n and m in OF_EACH_KIND else at_night(m, n) for m, n in RIGOROUS],
)
def test_all_that_is_shown_follows_from_what_was_decided(
    tmp_path: Path, method: str, number: int, capsys: pytest.CaptureFixture[str]
) -> None:
    one, other = neighbours(tmp_path)
    first = shown(tmp_path / "first", one, method, number, capsys)
    assert shown(tmp_path / "second", other, method, number, capsys) == first


@pytest.mark.usefixtures("same_decisions")
def test_what_takes_a_number_past_the_noise_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The control: a statement that says how many cases there were."""
    one, other = neighbours(tmp_path)
    first = shown(tmp_path / "first", one, "variant-histogram", 0, capsys)
    original = release_files.write_products

    def telling(folder: Any, *given: Any) -> Any:
        folder.write("cases.txt", str(other.stat().st_size).encode())
        return original(folder, *given)

    monkeypatch.setattr("tracecloak.transforms.publish.release_files.write_products", telling)
    assert shown(tmp_path / "second", other, "variant-histogram", 0, capsys) != first


# --- one record more, in a file of any kind -------------------------------------------------------

IDS = range(202600001000, 202600001060)
RECORDS = [
    record(number, 20260000001 + step, number, step, f"2026-01-0{1 + step}T10:00:00Z")
    for number in IDS
    for step in range(3)
]
STRANGE: dict[str, Record] = {
    "fraction": record(0.5, 1.5, 0.5, 1e22),
    "nothing": record(None, None, None, None),
    "text": record("x" * 200, "=1+1", "202600001000", "\u202e"),
    "of somebody's id": record(str(IDS[0]) + ".0", True, 2.0**60, "1e3"),
    "truth and time": record(True, False, "p", "k", "yesterday"),
}
PARAMS: dict[str, dict[str, Any]] = {
    "private-dfg": {"epsilon": "8", "buy_vocabulary": True},
    "variant-histogram": {"epsilon": "8", "delta": "1e-5"},
}
# Of one case in one column: what has the name of a folder or a column of a table may be anything.
FLOATS = [pa.float64(), pa.string(), pa.string(), pa.float64(), pa.string()]
DECIMALS = [pa.decimal128(20, 2), pa.string(), pa.string(), pa.float32(), pa.string()]


def released(folder: Path, files: dict[str, bytes], method: str, runner: str) -> tuple[Any, ...]:
    """(exit code, the digest of each file by its name, the manifest) of a release."""
    log = folder / "log"
    log.mkdir(parents=True)
    for name, data in files.items():
        (log / name).write_bytes(data)
    of_case = "case:" if next(iter(files)).endswith("xes") else ""
    columns = {
        "case_id": "case:concept:name" if of_case else "case",
        "activity": "concept:name" if of_case else "activity",
        "timestamp": "time:timestamp" if of_case else "stamp",
        "individual_id": f"{of_case}who",
        "order": "kind",
    }
    params = {**PARAMS[method], "max_cases_per_individual": 2}
    body = {
        "log": str(log), "output": str(folder / "out"), "key_store": str(folder / "keys"),
        "release_id": "one", "method": method, "params": params, "columns": columns,
        "runner": runner, "parts": 1, "formats": ["parquet", "xes"],
    }  # fmt: skip
    (folder / "release.yaml").write_text(yaml.safe_dump(body), encoding="utf-8")
    code = tracecloak("release", folder / "release.yaml")
    made = folder / "out" / "run_id=one"
    return code, digests(made), (made / "manifest.json").read_bytes()


@pytest.mark.usefixtures("same_decisions")
@pytest.mark.parametrize(
    ("method", "runner"),
    [
        ("private-dfg", "InMemory"),
        at_night("private-dfg", "FnApiRunner"),
        at_night("variant-histogram", "InMemory"),
    ],
)
@pytest.mark.parametrize("kind", WRITERS)
def test_one_record_more_changes_nothing_but_counts(
    tmp_path: Path, kind: str, method: str, runner: str
) -> None:
    """The same exit code, the same files, the same manifest, whatever the record is."""
    write = WRITERS[kind]
    first = released(tmp_path / "first", {f"a.{kind}": write(RECORDS)}, method, runner)
    assert first[0] == 0
    for place, strange in enumerate(STRANGE.values()):
        there = [*RECORDS[:place], strange, *RECORDS[place:]]
        found = released(tmp_path / str(place), {f"a.{kind}": write(there)}, method, runner)
        assert found == first


@pytest.mark.usefixtures("same_decisions")
def test_a_second_file_of_other_types_changes_nothing_but_counts(tmp_path: Path) -> None:
    records = [(str(r[0]), str(r[1]), r[2], str(r[3]), str(r[4])) for r in RECORDS]
    floats = [
        record(None, who=None),
        record(0.5, who=0.5),
        record(float(IDS[0]), who=float(IDS[0])),
    ]
    decimals = [record(Decimal("0.50"), who=2.0**25)]
    files = {"a.parquet": parquet(records)}
    first = released(tmp_path / "first", files, "private-dfg", "InMemory")
    for name, other, kinds in (("f", floats, FLOATS), ("d", decimals, DECIMALS)):
        files = {"a.parquet": parquet(records), "b.parquet": parquet(other, kinds=kinds)}
        assert released(tmp_path / name, files, "private-dfg", "InMemory") == first
