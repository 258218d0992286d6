"""What judges, doctors and experiments refuse that no test of their own file provokes."""

from __future__ import annotations

import errno
import multiprocessing
import socket
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from apache_beam.options.pipeline_options import PipelineOptions

from tests.support.stream_runs import batch_of
from tracecloak.examination.commands import catalogue, profile
from tracecloak.examination.comparison.contenders import chosen_methods
from tracecloak.examination.demo.hospital import write_sample
from tracecloak.examination.doctor import due, engines, places, sources
from tracecloak.examination.doctor.sample import check_sample
from tracecloak.examination.evaluation import evaluate
from tracecloak.examination.experiments import tlkc
from tracecloak.examination.experiments.paper import value_of
from tracecloak.examination.experiments.run import Experiment
from tracecloak.examination.indicators import truths
from tracecloak.examination.linkage import knowledge
from tracecloak.examination.linkage.pair_of_releases import Corresponding
from tracecloak.examination.measure.quality import PatientMiner
from tracecloak.schemas.errors import (
    BudgetExhausted,
    InputSchemaError,
    RetryLater,
    TracecloakError,
    UsageError,
)
from tracecloak.transforms.inputs import databases

ANY: Any = None
CASES, NONE = batch_of("AB", "B"), batch_of()


def like(**fields: Any) -> Any:
    return SimpleNamespace(**fields)


def fails(error: Exception) -> Callable[..., Any]:
    def failing(*_: object, **__: object) -> None:
        raise error

    return failing


def port_of_the_system() -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(socket, "create_server", fails(OSError(errno.EACCES, "planted")))
        list(due._port("127.0.0.1", 80))


def full_disk(folder: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(places, "_written_here", fails(OSError(errno.ENOSPC, "No space left")))
        list(places._probed(like(now=float), str(folder)))


def database(error: Exception) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(databases, "connected", fails(error))
        list(sources._of_query(like(query="SELECT 1", database="sqlite:///x")))


def too_many_pairs() -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(knowledge, "MAX_CODE", 1)
        knowledge.elements_of([CASES], "activity")


def two_releases(after: Any, perspective: str) -> Corresponding:
    release = like(name="r", traces=CASES)
    supposed = like(perspective=perspective)
    return Corresponding(
        like(before=CASES, after=after, earlier=release, later=release, supposed=supposed)
    )


def ended_miner() -> None:
    ours, theirs = multiprocessing.Pipe()
    theirs.close()
    miner = PatientMiner(ANY, ANY, 1)
    miner._worker = like(kill=int, join=int), ours
    miner.answered("question")


def spent(_: object) -> Any:
    config = like(epoch="1", release_id="ward")
    return list(sources._elsewhere(ANY, like(is_spent=True, config=config), ANY))


SINGLE = {"name": "k", "above": 0, "most": 9, "is_single": True}

# What is called with a folder, the error, and the distinctive part of its message.
REFUSED: list[tuple[Callable[[Path], Any], type[Exception], str]] = [
    (lambda f: catalogue._known("hybrid-log"), UsageError, "auto-variants or joint-variants"),
    (lambda f: chosen_methods(["hybrid-log"]), UsageError, "auto-variants or joint-variants"),
    (lambda f: profile._place("gs://b/p.json", None, "log"), UsageError, "for its owner alone"),
    (lambda f: write_sample(1, str(f / "a.parquet.gz")), UsageError, "is compressed inside"),
    (lambda f: write_sample(1, str(f / "a.json")), UsageError, "can be read only"),
    (lambda f: port_of_the_system(), UsageError, "operator_port 80 cannot be had: Permission"),
    (lambda f: list(engines.look_at_engine(like(config=like(runner="Local"), of_beam=["--x"]))),
     UsageError, "takes nothing of Beam, got --x"),
    (lambda f: list(engines._of_flink(PipelineOptions(["--flink_master=127.0.0.1:1"]))), RetryLater,
     "Flink does not answer at flink_master '127.0.0.1:1'"),
    (full_disk, TracecloakError, "to try it failed: No space"),
    (lambda f: check_sample(like(), 1, True), UsageError, "--sample is for streams"),
    (lambda f: database(InputSchemaError("no such file")), InputSchemaError, "no such file"),
    (lambda f: database(ValueError("planted")), InputSchemaError,
     r"the database does not answer \(ValueError\)"),
    (spent, BudgetExhausted, "is spent"),
    (lambda f: evaluate.graph_of(like(values_of=lambda *_: None, folder=like(path="p"))),
     UsageError, "holds neither a log nor dfg.json"),
    (lambda f: evaluate._tree_report(evaluate._Judge(evaluate._Log(NONE)), "'A'"), UsageError,
     "the original has no case"),
    (lambda f: value_of(SINGLE, "1,2"), UsageError, "k must be one number, got 2"),
    (lambda f: Experiment(ANY, (), patience=0), UsageError, "patience must be above 0"),
    (lambda f: tlkc.settings_of("hours/2/20/0.5,hours/2/20/0.5", {}), UsageError,
     "settings must be distinct"),
    (lambda f: tlkc._weight("alpha", "half"), UsageError, "alpha must be a number from 0 to 1"),
    (lambda f: truths._numbers(ANY, None, ANY), TypeError, "NoneType has no numbers"),
    (lambda f: too_many_pairs(), UsageError, "pairs of activities and resources"),
    (lambda f: two_releases(NONE, "activity"), UsageError, "at least one case each"),
    (lambda f: two_releases(CASES, "resource"), UsageError, "were made by resources"),
    (lambda f: ended_miner(), RuntimeError, "the process that mines has ended"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "kind", "said"), REFUSED, ids=[row[2] for row in REFUSED])
def test_it_is_refused(
    call: Callable[[Path], Any], kind: type[Exception], said: str, tmp_path: Path
) -> None:
    """Catches a guard that is gone: what it keeps out would fail late, or not at all."""
    with pytest.raises(kind, match=said) as raised:
        call(tmp_path)
    assert "planted" not in str(raised.value)
