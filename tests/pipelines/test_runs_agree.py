"""The Beam pipeline and the in-memory driver make the same bytes."""

from pathlib import Path

import pytest

from tests.support.releasing import digests, fix_key, hospital_files, manifest, tracecloak

N_CASES = 400


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("inputs")
    return ",".join(str(path) for path in hospital_files(folder, N_CASES))


def release(folder: Path, inputs: str, *flags: object) -> Path:
    code = tracecloak(
        "release", "--input", inputs, "--output", folder / "out", "--key_store", folder / "keys",
        "--method", "amun", "--guessing_advantage", 0.3, "--release_id", "r",
        "--formats", "parquet,xes,csv", *flags,
    )  # fmt: skip
    assert code == 0
    return folder / "out" / "run_id=r"


@pytest.fixture
def same_key(monkeypatch: pytest.MonkeyPatch) -> None:
    fix_key(monkeypatch)


@pytest.mark.parametrize("mode", ["sampling", "filtering", "oversampling"])
@pytest.mark.usefixtures("same_key")
def test_every_shard_count_gives_the_bytes_of_the_in_memory_driver(
    tmp_path: Path, inputs: str, mode: str
) -> None:
    # Within 10 s hardly any two durations agree, and the filter would drop next to nothing.
    flags = ("--mode", mode, "--time_precision_us", 1_000_000)
    expected = release(tmp_path / "memory", inputs, *flags, "--runner", "InMemory")
    for shards in (1, 2, 7, 16):
        found = release(tmp_path / f"beam{shards}", inputs, *flags, "--shards", shards)
        assert digests(found) == digests(expected)
        assert manifest(found)["outputs"] == manifest(expected)["outputs"]
        assert manifest(found)["randomness"]["unsafe_barrier"]


@pytest.mark.usefixtures("same_key")
def test_worker_processes_and_in_memory_shards_change_nothing(tmp_path: Path, inputs: str) -> None:
    expected = digests(release(tmp_path / "one", inputs, "--runner", "InMemory", "--shards", 1))
    assert expected == digests(
        release(tmp_path / "many", inputs, "--runner", "InMemory", "--shards", 13)
    )
    workers = ("--direct_running_mode", "multi_processing", "--direct_num_workers", 2)
    assert expected == digests(release(tmp_path / "processes", inputs, *workers))


@pytest.mark.usefixtures("same_key")
def test_the_runner_that_retries_bundles_gives_the_same_bytes(tmp_path: Path, inputs: str) -> None:
    expected = digests(release(tmp_path / "memory", inputs, "--runner", "InMemory"))
    assert expected == digests(
        release(tmp_path / "b", inputs, "--runner", "BundleBasedDirectRunner")
    )


@pytest.mark.usefixtures("same_key")
def test_the_order_of_the_input_files_does_not_matter_but_their_events_do(
    tmp_path: Path, inputs: str
) -> None:
    paths = inputs.split(",")
    expected = digests(release(tmp_path / "a", inputs, "--runner", "InMemory"))
    turned = ",".join(reversed(paths))
    assert expected == digests(release(tmp_path / "b", turned, "--runner", "InMemory"))
    fewer = ",".join(paths[:2])
    assert expected != digests(release(tmp_path / "c", fewer, "--runner", "InMemory"))


def test_two_keys_give_two_releases(
    tmp_path: Path, inputs: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    fix_key(monkeypatch, b"a" * 32)
    first = digests(release(tmp_path / "a", inputs, "--runner", "InMemory"))
    fix_key(monkeypatch, b"b" * 32)
    second = digests(release(tmp_path / "b", inputs, "--runner", "InMemory"))
    assert all(first[path] != second[path] for path in first)


@pytest.mark.usefixtures("same_key")
def test_the_release_id_and_the_configuration_are_part_of_the_noise(
    tmp_path: Path, inputs: str
) -> None:
    expected = digests(release(tmp_path / "a", inputs, "--runner", "InMemory"))
    zone = release(tmp_path / "b", inputs, "--runner", "InMemory", "--time_zone", "Europe/Berlin")
    assert digests(zone)["log/part-00000.parquet"] != expected["log/part-00000.parquet"]
