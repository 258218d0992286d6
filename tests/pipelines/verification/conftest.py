"""Releases that are verified as they are, or as copies that somebody changed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.received import made
from tests.support.stream_runs import in_time, random_messages, run, stream_config
from tracecloak.transforms.keys.signing import new_pair


@pytest.fixture(scope="package")
def log_release(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log with an attribute, in three forms, that a syntactic method released."""
    return made(tmp_path_factory.mktemp("log"), "pretsa", 2)


@pytest.fixture(scope="package")
def figures_release(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log with figures, whose intervals follow from what was measured."""
    return made(tmp_path_factory.mktemp("figures"), "private-log", 0)


@pytest.fixture(scope="package")
def graph_release(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A graph with a true epsilon."""
    return made(tmp_path_factory.mktemp("graph"), "private-dfg", 3)


@pytest.fixture(scope="package")
def signed_release(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same, signed."""
    folder = tmp_path_factory.mktemp("signed")
    new_pair(folder / "sign.pem", folder / "sign.pub")
    return made(folder, "private-dfg", 3, sign=str(folder / "sign.pem"))


@pytest.fixture(scope="package")
def stream_release(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An epoch of a stream of graphs."""
    folder = tmp_path_factory.mktemp("stream")
    run(stream_config(folder), in_time(random_messages(40), 80))
    return folder / "out" / "run_id=ward" / "epoch=1"
