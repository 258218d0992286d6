"""Whether workers can write where a release is built: a shared disk, another one, another user."""

from __future__ import annotations

from pathlib import Path

import pytest

from tracecloak.pipelines.runners import reach
from tracecloak.pipelines.runners.options import pipeline_options
from tracecloak.pipelines.runners.reach import check_workers_write
from tracecloak.schemas.errors import UsageError


def test_a_worker_that_can_write_leaves_nothing_behind(tmp_path: Path) -> None:
    for _ in range(2):
        check_workers_write(str(tmp_path), pipeline_options("FnApiRunner", []))
    assert list(tmp_path.iterdir()) == []


def test_a_worker_that_does_not_see_the_folder_makes_none_of_its_own(tmp_path: Path) -> None:
    """Catches a release that is written to the disks of its workers, each a part of it."""
    place = tmp_path / "there"
    with pytest.raises(UsageError, match=r"cannot write into .*there, where the release would"):
        check_workers_write(str(place), pipeline_options("FnApiRunner", []))
    assert not place.exists()


def test_a_file_that_was_there_before_is_no_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    check_workers_write(str(tmp_path), pipeline_options("FnApiRunner", []))
    (tmp_path / reach._NAME).write_bytes(reach._TEXT)
    monkeypatch.setattr(reach, "_write", str)
    with pytest.raises(UsageError):
        check_workers_write(str(tmp_path), pipeline_options("FnApiRunner", []))
