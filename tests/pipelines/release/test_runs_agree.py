"""The Beam pipeline and the in-memory driver make the same bytes."""

import json
import re
from collections.abc import Sequence
from pathlib import Path

import apache_beam as beam
import pytest

from tests.support.cramped import cramped
from tests.support.releasing import (
    counting_charges,
    csv_log,
    digests,
    fix_key,
    individual_files,
    manifest,
    tracecloak,
)
from tests.support.tiers import at_night
from tracecloak.anonymizers.registry import METHODS
from tracecloak.transforms.batch import read

N_CASES = 400
BEAM = ("--runner", "FnApiRunner")


def differ_by_driver_alone(on_beam: Path, in_memory: Path) -> None:
    """Compares whole folders: the manifest names Beam, and says that its runner may count again."""
    assert digests(on_beam) == digests(in_memory) != {}
    told, expected = manifest(on_beam), manifest(in_memory)
    assert (told["tool"].pop("beam"), expected["tool"].pop("beam")) == (beam.__version__, None)
    barriers = [one["randomness"].pop("unsafe_barrier") for one in (told, expected)]
    assert barriers == [True, False]
    assert told == expected


@pytest.fixture
def same_key(monkeypatch: pytest.MonkeyPatch) -> None:
    fix_key(monkeypatch)


# Of the 25 activities of the log; the others count as __other__.
NAMES = ("Registration", "Triage", "CRP", "Leucocytes", "Discharge home", "X-ray", "Not in the log")

Flags = tuple[object, ...]

RESOURCES = json.dumps(
    {"org:resource": {"values": [f"person-{i}" for i in range(60)], "column": "person"}}
)
SENSITIVE = json.dumps(
    {
        "case:who": {"values": [f"person-{i}" for i in range(130)], "column": "person"},
        "case:number": {"bounds": [0, 200], "n_bins": 50, "whole": True, "column": "person"},
    }
)

INDICATORS = json.dumps(
    [
        "cases by=month", "throughput of=0.5|0.9", "frequency by=activity n_groups=4 at_most=2",
        "waiting by=pair n_groups=3 at_most=30d of=median", "workload at_most=2 n_groups=3",
        "rule template=precedence activity=Registration then=CRP within=30d",
        "throughput of=histogram n_bins=5 at_most=60d by=case:who n_groups=2",
    ]
)  # fmt: skip

# Every kind of noise, everything that can be bought, individuals with more cases than count and
# with one case for two of them. What is bought needs a large epsilon on so few cases.
# Within 10 s hardly any two durations agree, and the filter of amun would drop next to nothing.
AMUN = ("--method", "amun", "--guessing_advantage", 0.3, "--formats", "parquet,xes,csv",
        "--time_precision_us", 1_000_000, "--mode")  # fmt: skip
CONFIGURATIONS: dict[str, Flags] = {
    "sampled": (*AMUN, "sampling"),
    "filtered": (*AMUN, "filtering"),
    "oversampled": (*AMUN, "oversampling"),
    "variants": ("--method", "variant-histogram", "--epsilon", 2, "--vocabulary", "names.txt",
                 "--max_trace_length", 4, "--formats", "parquet,xes,csv"),
    "variants of individuals": (
        "--method", "variant-histogram", "--epsilon", 4, "--noise", "truncated", "--vocabulary",
        "names.txt", "--max_trace_length", 3, "--individual_id", "person",
        "--max_cases_per_individual", 2),
    "graph, Gaussian": ("--method", "private-dfg", "--epsilon", 2, "--l2_clip", 6, "--vocabulary",
                        "names.txt"),
    "graph, pure, durations": (
        "--method", "private-dfg", "--epsilon", 4, "--delta", 0, "--vocabulary", "names.txt",
        "--max_trace_length", 8, "--durations", "--n_duration_bins", 5),
    "graph, all bought": ("--method", "private-dfg", "--epsilon", 200, "--buy_vocabulary"),
    "graph of individuals, all bought, durations": (
        "--method", "private-dfg", "--epsilon", 400, "--durations", "--individual_id", "person",
        "--buy_vocabulary",
        "--max_cases_per_individual", 2, "--max_activities", 5),
    "graph of individuals, pure": (
        "--method", "private-dfg", "--epsilon", 4, "--delta", 0, "--vocabulary", "names.txt",
        "--max_trace_length", 8, "--individual_id", "person"),
    "variants, generated": ("--method", "auto-variants", "--epsilon", 400, "--buy_vocabulary"),
    "indicators of individuals, all bought": (
        "--method", "private-indicators", "--epsilon", 400, "--individual_id", "person",
        "--max_cases_per_individual", 2, "--max_activities", 5, "--indicators", INDICATORS,
        "--attribute_columns", '{"case:who": "person", "org:resource": "person"}'),
    "log": ("--method", "private-log", "--epsilon", 4, "--vocabulary", "names.txt",
            "--max_trace_length", 9, "--first_date", "2019-01-01", "--last_date", "2019-12-31",
            "--l2_clip", 4, "--working_hours", "6-22", "--attributes",
            '{"activity length": {"values": ["3", "6"], "column": "person"}}'),
    "log of individuals, all bought": (
        "--method", "private-log", "--epsilon", 400, "--individual_id", "person",
        "--buy_vocabulary",
        "--max_cases_per_individual", 2, "--variants", "markov-log"),
    "log of individuals, pure": (
        "--method", "amun-rigorous", "--guessing_advantage", 0.9, "--vocabulary", "names.txt",
        "--max_trace_length", 8, "--individual_id", "person", "--delta", 0),
    "published variants": (
        "--method", "laplace-variants", "--epsilon", 1, "--max_prefix_length", 5, "--p_harmful", 3),
    "published variants with a budget that holds": (
        "--method", "sacofa", "--epsilon", 40, "--max_prefix_length", 4, "--p_harmful", 3,
        "--rules", "bought", "--budget", "honest", "--vocabulary", "names.txt"),
    "published variants, rules of the log": (
        "--method", "sacofa", "--epsilon", 1, "--max_prefix_length", 5, "--p_harmful", 3),
    "published graph": ("--method", "laplace-dfg", "--epsilon", 1),
    "published graph with a budget that holds": (
        "--method", "laplace-dfg", "--epsilon", 4, "--budget", "honest", "--vocabulary",
        "names.txt", "--max_trace_length", 8, "--individual_id", "person",
        "--max_cases_per_individual", 2),
    "played-out graph": ("--method", "sapa", "--epsilon", 1, "--k_follows", 2),
    "played-out graph with a budget that holds": (
        "--method", "sapa", "--query", "laplace", "--epsilon", 4, "--budget", "honest",
        "--vocabulary", "names.txt", "--max_trace_length", 8),
    "enriched cases": (
        "--method", "pripel", "--epsilon", 1, "--max_prefix_length", 6, "--p_harmful", 2,
        "--attributes", '{"who": {"values": ["person-1", "person-2"], "column": "person"}}'),
    "variants of k cases": ("--method", "k-anonymous-variants", "--k", 2),
    "subtraces of k cases": (
        "--method", "k-anonymous-subtraces", "--k", 5, "--knowledge_kind", "relative",
        "--perspective", "activity_resource", "--resources", RESOURCES),
    "known to nobody": (
        "--method", "tlkc", "--k", 3, "--knowledge_kind", "relative", "--time_unit", "hours",
        "--length", 2, "--sensitive", SENSITIVE),
    "known to nobody, with resources": (
        "--method", "tlkc", "--k", 3, "--knowledge_kind", "multiset", "--perspective",
        "activity_resource", "--resources", RESOURCES),
    "merged variants": ("--method", "pretsa", "--k", 3, "--t", 0.8),
    "merged variants by context": ("--method", "pretsa-case", "--k", 3, "--distance", "embedding"),
    "tree": ("--method", "process-tree", "--epsilon", 4, "--vocabulary", "names.txt"),
    "tree of individuals, names bought": (
        "--method", "process-tree", "--epsilon", 400, "--individual_id", "person",
        "--buy_vocabulary",
        "--max_cases_per_individual", 2),
    "tree, as published": ("--method", "dpim", "--epsilon", 10, "--vocabulary", "names.txt"),
}  # fmt: skip
MOST = (
    "variants of individuals",
    "graph of individuals, all bought, durations",
    "log of individuals, all bought",
)
# Every way of counting, deciding and writing at least once.
OF_EACH_KIND = (
    *MOST, "variants, generated", "published variants with a budget that holds", "played-out graph",
    "enriched cases", "known to nobody", "tree of individuals, names bought",
    "indicators of individuals, all bought",
)  # fmt: skip
BY_DAY = {"sampled", *MOST, "indicators of individuals, all bought"} - {MOST[1]}


@pytest.fixture(scope="module")
def people(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return individual_files(tmp_path_factory.mktemp("people"), N_CASES)


def released(
    folder: Path, inputs: Sequence[Path], flags: Flags, *more: object, release_id: str = "r"
) -> Path:
    names = inputs[0].parent / "names.txt"
    names.write_text("\n".join(NAMES) + "\n")
    has_delta = "delta" in METHODS[str(flags[flags.index("--method") + 1])].Params.model_fields
    code = tracecloak(
        "release", "--log", ",".join(map(str, inputs)), "--output", folder / "out",
        "--key_store", folder / "keys", "--release_id", release_id,
        *(("--delta", "1e-5") if has_delta and "--delta" not in flags else ()), "--parts", 3,
        *(names if flag == "names.txt" else flag for flag in flags), *more,
    )  # fmt: skip
    assert code == 0
    return folder / "out" / f"run_id={release_id}"


@pytest.mark.parametrize(
    ("name", "n_shards"),
    [
        (name, n) if name in BY_DAY and n == 7 else at_night(name, n)
        for name in CONFIGURATIONS for n in ((1, 2, 7, 16) if name in OF_EACH_KIND else (1, 7))
    ],
)  # fmt: skip
@pytest.mark.usefixtures("same_key")
def test_a_release_has_the_same_bytes_on_beam_for_any_number_of_shards(
    tmp_path: Path,
    people: list[Path],
    name: str,
    n_shards: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Catches noise, a bought choice or a sample of cases that depends on how the log is spread."""
    monkeypatch.setattr(read, "PIECE_BYTES", 10_000)
    if n_shards == 1:
        monkeypatch.setattr(read, "_MOST_FILES", 1)
    flags = CONFIGURATIONS[name]
    expected = released(tmp_path / "memory", people, flags, "--runner", "InMemory")
    assert digests(expected)
    found = released(tmp_path / "beam", people, flags, *BEAM, "--shards", n_shards)
    differ_by_driver_alone(found, expected)
    with cramped():
        more = ("--runner", "InMemory", "--shards", 13, "--workers", 2)
        sharded = released(tmp_path / "sharded", people, flags, *more)
    assert digests(sharded) == digests(expected)
    assert manifest(sharded) == manifest(expected)


PROCESSES = ("--direct_running_mode", "multi_processing", "--direct_num_workers", 2)


@pytest.mark.parametrize(
    ("name", "runner"),
    [("sampled", ("--runner", "BundleBasedDirectRunner")), at_night(MOST[1], PROCESSES)],
)
@pytest.mark.usefixtures("same_key")
def test_a_release_has_the_same_bytes_where_bundles_are_retried_and_from_worker_processes(
    tmp_path: Path, people: list[Path], name: str, runner: Flags
) -> None:
    """Catches what a worker process knows otherwise: the key, a hash's seed, an import."""
    flags = CONFIGURATIONS[name]
    expected = digests(released(tmp_path / "memory", people, flags, "--runner", "InMemory"))
    assert digests(released(tmp_path / "workers", people, flags, *runner)) == expected


@pytest.mark.parametrize("name", [MOST[0], *map(at_night, MOST[1:])])
@pytest.mark.usefixtures("same_key")
def test_a_release_depends_on_the_events_and_not_on_their_files(
    tmp_path: Path, people: list[Path], name: str
) -> None:
    """Catches a digest or a choice by place; and, as its control, noise that ignores the input."""
    flags = (*CONFIGURATIONS[name], "--runner", "InMemory")
    expected = digests(released(tmp_path / "a", people, flags))
    # Other names in the same order: the order of the files breaks ties of equal stamps.
    moved = [tmp_path / f"moved-{path.name}" for path in people]
    for path, found in zip(moved, people, strict=True):
        path.write_bytes(found.read_bytes())
    assert digests(released(tmp_path / "b", moved[::-1], flags)) == expected
    lines = moved[0].read_text().splitlines(keepends=True)
    moved[0].write_text("".join(lines[:-1]))  # one event less
    assert digests(released(tmp_path / "c", moved, flags)) != expected
    assert digests(released(tmp_path / "d", people, flags, release_id="s")) != expected


# --- Which driver it is ---------------------------------------------------------------------------


@pytest.mark.usefixtures("same_key")
def test_it_is_in_memory_unless_a_runner_or_flags_of_beam_are_given(
    tmp_path: Path, people: list[Path]
) -> None:
    """Catches a driver that follows from anything else, and one that makes another release."""
    first = released(tmp_path / "first", people, CONFIGURATIONS["sampled"])
    assert manifest(first)["tool"]["beam"] is None
    other = released(
        tmp_path / "other", people, CONFIGURATIONS["sampled"], "--direct_num_workers", 1
    )
    differ_by_driver_alone(other, first)
    before = {path: path.stat().st_mtime_ns for path in first.rglob("*")}
    assert released(tmp_path / "first", people, CONFIGURATIONS["sampled"], *BEAM) == first
    assert before == {path: path.stat().st_mtime_ns for path in first.rglob("*")}
    assert len(counting_charges(tmp_path / "first" / "keys")) == 1


def test_both_drivers_end_and_are_measured_alike(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Catches an exit code, an error, a row or a metric that tells which driver it was."""
    rows = [(f"c{n // 2}", "A", f"2026-01-01T00:00:{n:02d}Z") for n in range(40)]
    logs = {"good": rows, "bad": [*rows, *(("x", "A", "soon") for _ in range(40))], "none": None}
    logs["empty"] = []
    told = []
    for runner in ("InMemory", "FnApiRunner"):
        of_runner = []
        for name, of_log in logs.items():
            place = tmp_path / runner / name
            place.mkdir(parents=True)
            if of_log is not None:
                csv_log(place / "log.csv", of_log)
            code = tracecloak(
                "release", "--log", place / "log.csv", "--output", place / "out", "--key_store",
                place / "keys", "--method", "pretsa", "--k", 2, "--t", 1, "--runner", runner,
                "--release_id", "r", "--metrics", place / "run.prom",
            )  # fmt: skip
            seen = capsys.readouterr()
            lines = [line for line in seen.out.splitlines() if not line.startswith("took")]
            lines += [line for line in seen.err.splitlines() if line.startswith("tracecloak: ")]
            metrics = [
                line.partition("}")[0] for line in (place / "run.prom").read_text().splitlines()
            ]
            said = re.sub(r"\b[0-9a-f]{8}\b", "", "\n".join(lines))  # of the place of the output
            of_runner.append((code, said.replace(str(place), ""), metrics))
        told.append(of_runner)
    assert [code for code, _, _ in told[0]] == [0, 3, 3, 5]
    assert told[0] == told[1]
