"""Files of steps: each is written once, whole, and never with other bytes."""

from __future__ import annotations

import gzip
import io
import json
import stat
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from tests.support.stream_runs import batch_of
from tracecloak.anonymizers.logs.params import PrivateLogParams
from tracecloak.anonymizers.logs.private_log import PrivateLog
from tracecloak.schemas.errors import GuaranteeError
from tracecloak.schemas.published.manifest import ReleaseManifest
from tracecloak.schemas.published.step import StepLog, StepRelease
from tracecloak.transforms.stream import step_files
from tracecloak.transforms.stream.step_files import files_of, step_path, write_once
from tracecloak.transforms.stream.topic_sinks import SendSteps

PARAMS = PrivateLogParams(epsilon="1", vocabulary=("A", "B"), max_trace_length=4)
MANIFEST = ReleaseManifest(
    "ward@1",
    "stream of dfg",
    1,
    {},
    PrivateLog().guarantee(PARAMS),
    (),
    (),
    "c",
    "k",
    True,
    True,
    "2",
)


def release(step: int = 3, count: int = 5) -> StepRelease:
    return StepRelease.of(
        [("A", "B")],
        np.array([count]),
        np.array([1.0]),
        release_id="ward",
        epoch="1",
        product="dfg",
        view="window",
        step=step,
        start_us=0,
        end_us=10,
        n_steps_left=2,
        epsilon="1",
        delta="0",
    )


def write(output: Path, *releases: StepRelease | StepLog) -> list[StepRelease | StepLog]:
    sink = step_files.FileSink(str(output), ("parquet", "xes"), MANIFEST, str(workplace(output)))
    fn = SendSteps(sink)
    return [passed for made in releases for passed in fn.process(made)]


def workplace(output: Path) -> Path:
    return output.parent / f"_incomplete-{output.name}"


def contents(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def test_a_step_is_where_its_name_says_and_passes_on(tmp_path: Path) -> None:
    made = release()
    assert write(tmp_path, made) == [made]
    files = contents(tmp_path)
    place = "run_id=ward/epoch=1/product=dfg/view=window/step-000003"
    assert set(files) == {f"{place}.json", f"{place}.parquet"}
    assert StepRelease.from_json(files[f"{place}.json"]) == made
    table = pq.read_table(io.BytesIO(files[f"{place}.parquet"]))
    assert table.select(["count"]).to_pylist() == [{"count": 5}]
    metadata = json.loads(table.schema.metadata[b"tracecloak.release"])
    assert metadata["release_id"] == "ward@1"


def test_another_release_of_a_step_ends_the_stream_and_leaves_the_first(tmp_path: Path) -> None:
    write(tmp_path, release())
    before = contents(tmp_path)
    with pytest.raises(GuaranteeError, match="published before") as refused:
        write(tmp_path, release(count=6))
    assert refused.value.exit_code == 5
    assert contents(tmp_path) == before


def test_a_file_appears_whole_or_not_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, place = tmp_path / "out" / "step.json", tmp_path / "workplace"

    def failing(sources: list[str], targets: list[str]) -> None:
        raise OSError("the disk is full")

    with monkeypatch.context() as patch:
        patch.setattr(step_files, "rename", failing)
        with pytest.raises(OSError, match="full"):
            write_once(str(path), b"all of it", str(place))
    assert contents(tmp_path / "out") == {}
    assert list(contents(place).values()) == [b"all of it"]
    assert stat.S_IMODE(place.stat().st_mode) == 0o700
    assert write_once(str(path), b"all of it", str(place))
    assert not write_once(str(path), b"all of it", str(place))
    assert contents(tmp_path) == {"out/step.json": b"all of it"}


def log(n: int = 5) -> StepLog:
    return StepLog(
        release_id="ward", epoch="1", step=2, start_us=0, end_us=10, n_steps_left=1, epsilon="1",
        delta="0", traces=batch_of(*["AB"] * n),
    )  # fmt: skip


def test_a_log_has_a_folder_and_says_last_what_it_is_of(tmp_path: Path) -> None:
    write(tmp_path, log())
    place = "run_id=ward/epoch=1/product=log/view=window/step-000002"
    assert step_path(str(tmp_path), log()).endswith(place)
    files = contents(tmp_path)
    assert set(files) == {f"{place}/{n}" for n in ("log.parquet", "log.xes.gz", "step.json")}
    xes = gzip.decompress(files[f"{place}/log.xes.gz"]).decode()
    assert xes.count("<trace>") == 5
    assert json.loads(files[f"{place}/step.json"])["n_steps_left"] == 1
    assert files_of(log(), ["xes"], MANIFEST)["/log.xes.gz"] == files[f"{place}/log.xes.gz"]
    with pytest.raises(GuaranteeError):
        write(tmp_path, log(6))


@pytest.mark.parametrize("made", [release(), log(), log(0)], ids=["counts", "log", "no case"])
def test_what_is_kept_of_a_step_makes_the_same_files(made: StepRelease | StepLog) -> None:
    forms = ("parquet", "xes", "csv") if made.has_log else ("parquet",)
    kept = type(made).from_kept(made.to_kept())
    assert files_of(kept, forms, MANIFEST) == files_of(made, forms, MANIFEST)
    assert kept.key == made.key
