"""Whether workers are there, and can write where a release is built: another disk, another user."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.engines.processes import free_port
from tests.support.flink import job_server
from tracecloak.pipelines.runners import on_beam
from tracecloak.pipelines.runners.on_beam import check_workers, pipeline_options
from tracecloak.schemas.errors import RetryLater, UsageError


def test_a_worker_that_can_write_leaves_nothing_behind(tmp_path: Path) -> None:
    for _ in range(2):
        check_workers(pipeline_options("FnApiRunner", []), str(tmp_path))
    assert list(tmp_path.iterdir()) == []


def test_a_worker_that_does_not_see_the_folder_makes_none_of_its_own(tmp_path: Path) -> None:
    """Catches a release that is written to the disks of its workers, each a part of it."""
    place = tmp_path / "there"
    with pytest.raises(UsageError, match=r"cannot write into .*there, where the"):
        check_workers(pipeline_options("FnApiRunner", []), str(place))
    assert not place.exists()


def test_a_file_that_was_there_before_is_no_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    check_workers(pipeline_options("FnApiRunner", []), str(tmp_path))
    (tmp_path / on_beam._NAME).write_bytes(on_beam._TEXT)
    monkeypatch.setattr(on_beam, "_try", lambda path, versions: None)
    with pytest.raises(UsageError):
        check_workers(pipeline_options("FnApiRunner", []), str(tmp_path))


@pytest.fixture
def endpoint(tmp_path: Path) -> Iterator[str]:
    with job_server("stand-in", tmp_path / "server") as address:
        yield address


def test_workers_that_answer_are_enough_where_nothing_is_on_this_disk(endpoint: str) -> None:
    given = [f"--job_endpoint={endpoint}", "--environment_type=LOOPBACK"]
    check_workers(pipeline_options("PortableRunner", given))


def test_a_worker_that_does_nothing_is_an_error_after_a_stated_time(
    endpoint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Catches a run that waits for ever for workers that never come."""
    reader, writer = os.pipe()
    monkeypatch.setattr(on_beam, "_try", lambda path, versions: os.read(reader, 1))
    given = [f"--job_endpoint={endpoint}", "--environment_type=LOOPBACK"]
    try:
        with pytest.raises(RetryLater, match=r"did nothing within 1 s; nothing was"):
            monkeypatch.setattr(on_beam, "PATIENCE_SECONDS", 1)
            check_workers(pipeline_options("PortableRunner", given))
    finally:
        os.close(writer)  # so that the worker's thread ends


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_an_address_where_no_worker_is_is_told_with_the_runners_words(endpoint: str) -> None:
    given = [
        f"--job_endpoint={endpoint}", "--environment_type=EXTERNAL",
        f"--environment_config=localhost:{free_port()}",
    ]  # fmt: skip
    with pytest.raises(RetryLater, match=r"failed at a small job; .*The runner"):
        check_workers(pipeline_options("PortableRunner", given))


def test_workers_of_another_version_are_refused(
    endpoint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Catches noise that another version draws under the same key."""
    versions = iter(("tracecloak 9.1", *["tracecloak 9.2"] * 9))
    monkeypatch.setattr(on_beam, "_versions", lambda: next(versions))
    given = [f"--job_endpoint={endpoint}", "--environment_type=LOOPBACK"]
    said = "a worker has tracecloak 9.2, and who launched it has tracecloak 9.1"
    with pytest.raises(UsageError, match=said):
        check_workers(pipeline_options("PortableRunner", given))
