"""Transforms in pipelines of others on Prism and on Flink, from Python and from Beam YAML."""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest
import yaml
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.testing.util import assert_that, equal_to

from tests.engines.fetching import or_skip
from tests.engines.flink import flink_job_server, prism
from tests.engines.kafka import KafkaBroker
from tests.engines.processes import Process, running
from tests.engines.streams import CHECKPOINT_MILLIS, Feed, StreamOnFlink
from tests.support.documents import ROOT, blocks
from tests.support.embedded import AMUN, UNPAID, claims, fields, in_memory
from tests.support.releasing import digests, fix_key
from tracecloak import AnonymizeEventLog, verify

pytestmark = [
    pytest.mark.engines,
    pytest.mark.timeout(1_200),
    # Beam's workers are threads of this process, and one ends so when the engine hangs up.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning"),
]
PROVIDERS = ROOT / "pipelines" / "embedded" / "providers.yaml"


@pytest.fixture(scope="module")
def flags(place: Path) -> Iterator[list[str]]:
    with or_skip(prism(place / "prism")) as found:
        yield found


def page_file(name: str) -> dict[str, Any]:
    """A pipeline file as the page on Beam YAML has it."""
    (text,) = (b.text for b in blocks("docs/how-to/beam-yaml.md") if b.title == name)
    body: dict[str, Any] = yaml.safe_load(text)
    body["providers"] = [{"include": str(PROVIDERS)}]
    return body


def config_of(body: dict[str, Any], kind: str) -> dict[str, Any]:
    """The keys of a transform of a pipeline file, to be changed."""
    (config,) = (t["config"] for t in body["pipeline"]["transforms"] if t["type"] == kind)
    found: dict[str, Any] = config
    return found


def yaml_process(folder: Path, body: dict[str, Any], flags: list[str]) -> Process:
    path = folder / "pipeline.yaml"
    path.write_text(yaml.safe_dump(body))
    return Process(
        "beam-yaml",
        [sys.executable, "-m", "tests.engines.client", "beam-yaml", f"--yaml_pipeline_file={path}",
         *flags],
        folder,
        lambda: True,
        {"PYTHONPATH": str(ROOT)},
    )  # fmt: skip


def test_a_shuffled_delivery_is_the_same_release_on_prism(
    flags: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """All stamps of a case are equal, and the rows are those of the in-memory driver."""
    monkeypatch.setenv("TEST_KEY", "ab" * 32)
    rows = claims(ties=True)
    expected = in_memory(sorted(rows, key=lambda row: sorted(row.items())))
    with beam.Pipeline(options=PipelineOptions(flags)) as pipeline:
        created = pipeline | beam.Create(random.Random(3).sample(rows, len(rows)))
        released = created | AnonymizeEventLog(**AMUN, **UNPAID) | beam.Map(fields)
        assert_that(released, equal_to(expected))


def test_a_pipeline_file_makes_the_release_of_the_page_on_prism(
    tmp_path: Path, flags: list[str], ledger: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Paid once: the same file again on another runner finds what is there."""
    fix_key(monkeypatch)
    log = tmp_path / "claims.csv"
    lines = ["Claim;Step;At;lifecycle:transition"]
    lines += [f"c{i};{s};2026-01-01 0{h}:00:00;complete" for i in range(60)
              for h, s in enumerate(("A_open", "A_check", "A_close"))]  # fmt: skip
    log.write_text("\n".join(lines) + "\n")
    body = page_file("release.yaml")
    config_of(body, "ReadEventLog")["log"] = str(log)
    config_of(body, "WriteRelease").update(
        output=str(tmp_path / "out"), key_store=str(tmp_path / "keys"), ledger=ledger,
        new_ledger=True,
    )  # fmt: skip
    folder = tmp_path / "out" / "run_id=claims-1"
    for given in (flags, flags, ["--runner=FnApiRunner"]):
        process = yaml_process(tmp_path, body, given)
        with running(process):
            assert process.wait(300) == 0, process.tail()
        assert verify(str(folder)).holds
    before = digests(folder)
    config_of(body, "WriteRelease").update(output=str(tmp_path / "other"), release_id="claims-1")
    process = yaml_process(tmp_path, body, ["--runner=FnApiRunner"])
    with running(process):
        assert process.wait(300) == 0, process.tail()
    other = digests(tmp_path / "other" / "run_id=claims-1")
    assert {k: v for k, v in other.items() if "dfg" in k} == {
        k: v for k, v in before.items() if "dfg" in k
    }


def test_a_pipeline_file_publishes_a_stream_on_flink(
    tmp_path: Path, broker: KafkaBroker, ledger: str
) -> None:
    """The steps are those of the topic's messages, as one process without Beam has them."""
    stream = StreamOnFlink(tmp_path, broker, ledger, horizon=300)
    feed = Feed(stream.topic)
    body = page_file("stream.yaml")
    config = config_of(body, "ReadAndPublishDirectlyFollows")
    config.clear()
    config.update(stream.keys, new_ledger=True)
    beam_flags = [
        f"--checkpointing_interval={CHECKPOINT_MILLIS}", "--finish_bundle_before_checkpointing",
        "--operator_chaining", "--streaming",
    ]  # fmt: skip
    with or_skip(flink_job_server(tmp_path / "server")) as server:
        process = yaml_process(tmp_path, body, [*server.flags(), *beam_flags])
        with running(process):
            stream.wait_for_steps(4, process)
    feed.end()
    found, expected = stream.published(), stream.undisturbed()
    assert len(found) >= 4
    assert found == {step: expected[step] for step in found}
