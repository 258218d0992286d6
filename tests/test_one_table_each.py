"""A product, a product of a stream, a format, a key source and a token each are a table's entry.

The toys are of another distribution: one file, and one entry point for each. If a command does not
know one of them, there is a second place that has to be told.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pyarrow.parquet as pq
import pytest

from tests.support.releasing import manifest, placed, released, tracecloak
from tests.support.stream_runs import Sent, files_of, in_time, no_noise, published, run
from tests.support.stream_runs import stream_config as configured
from tracecloak.anonymizers.contract.method import Products
from tracecloak.anonymizers.registry import method_named
from tracecloak.examination.attack.releases import seen_in
from tracecloak.pipelines.commands.main import _parser
from tracecloak.pipelines.commands.table import COMMANDS
from tracecloak.pipelines.configuration.config import json_schema
from tracecloak.pipelines.stream.config import further_fields, stream_json_schema
from tracecloak.schemas import plugins
from tracecloak.schemas.errors import RetryLater, UsageError
from tracecloak.transforms.keys.wrapping import KeyEncryptionKey, KeyReference

TOYS = Path(__file__).parent / "support" / "toys"
HISTOGRAM = ("--method", "variant-histogram", "--epsilon", 8)
ENTRY_POINTS = """
[tracecloak.products]
sizes = tracecloak_toys:SIZES
[tracecloak.stream_products]
case-count = tracecloak_toys:CaseCount
[tracecloak.formats]
toy = tracecloak_toys:TOY
[tracecloak.key_sources]
vault = tracecloak_toys:vault
[tracecloak.kafka_tokens]
badge = tracecloak_toys:badge
[tracecloak.methods]
last-activities = last_activities:LastActivities
[tracecloak.columnar]
toy-sizes = tracecloak_toys:Sizes
[tracecloak.commands]
shout = tracecloak_toys:SHOUT
"""


def _forget() -> None:
    plugins._entry_points.cache_clear()


@pytest.fixture
def toys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The module of the toys, installed as another distribution."""
    info = tmp_path / "installed" / "tracecloak_toys-1.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: tracecloak-toys\nVersion: 1\n")
    (info / "entry_points.txt").write_text(ENTRY_POINTS)
    monkeypatch.syspath_prepend(str(info.parent))
    monkeypatch.syspath_prepend(str(TOYS))
    _forget()
    import tracecloak_toys

    yield tracecloak_toys
    monkeypatch.undo()
    _forget()


def sample(folder: Path) -> Path:
    """A log in the toy format, written by the command."""
    path = folder / "log.toy"
    assert tracecloak("sample", "--cases", 200, "--output", path) == 0
    return path


def test_a_command_is_listed_completed_and_run(
    toys: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        tracecloak("--help")
    assert "repeat a word loudly" in capsys.readouterr().out
    assert tracecloak("shout", "ward", "--times", 2) == 0
    assert capsys.readouterr().out.splitlines() == ["WARD", "WARD"]
    assert tracecloak("shout", "ward", "--json") == 0
    assert json.loads(capsys.readouterr().out) == {"word": "WARD"}
    assert tracecloak("shout", "ward", "--rounds", 2) == 2
    assert "unknown flag --rounds" in capsys.readouterr().err
    assert "shout" in _parser(COMMANDS)[1]  # which completion offers


@pytest.mark.parametrize("runner", ["InMemory", "FnApiRunner"])
def test_a_release_reads_the_format_writes_it_and_has_the_product(
    tmp_path: Path, toys: Any, monkeypatch: pytest.MonkeyPatch, runner: str
) -> None:
    method = type(method_named("variant-histogram"))
    products = method.products

    def with_sizes(self: Any, decisions: Any, params: Any) -> Products:
        variants = products(self, decisions, params).by_name["variants"]
        return Products({"variants": variants, "sizes": toys.Sizes(variants.counts)})

    monkeypatch.setattr(method, "products", with_sizes)
    path = sample(tmp_path)
    folder = released(tmp_path, path, *HISTOGRAM, "--formats", "toy", "--runner", runner)
    listed = {output["path"] for output in manifest(folder)["outputs"]}
    assert {"sizes.parquet", "sizes.json", "sizes.txt", "log.toy.gz"} < listed
    counts = json.loads((folder / "sizes.json").read_text())["cases"]
    assert len(counts) > 3
    assert pq.read_table(folder / "sizes.parquet")["cases"].to_pylist() == counts
    title, promise, _ = (folder / "sizes.txt").read_text().splitlines()
    assert title == "r: sizes"
    assert promise == manifest(folder)["guarantee"]["sentence"]
    log = gzip.decompress((folder / "log.toy.gz").read_bytes()).decode().splitlines()
    assert len({line.partition("|")[0] for line in log[1:]}) == sum(counts)
    # Who received it and has the toys, too, makes their files again.
    assert tracecloak("verify", folder) == 0
    # The release is read again, in the only format that its log is written in.
    assert tracecloak(
        "evaluate", "--log", path, folder, "--output", tmp_path / "e.json"
    ) == 0  # fmt: skip
    assert json.loads((tmp_path / "e.json").read_text())["released"]["cases"] == sum(counts)
    assert seen_in({"sizes": toys.Sizes(counts)}) == {("sizes",): float(len(counts))}


def test_a_histogram_is_a_method_of_forty_lines_as_the_docs_have_it() -> None:
    module = (TOYS / "last_activities.py").read_text(encoding="utf-8")
    assert len([line for line in module.splitlines() if line]) <= 40
    page = Path(__file__).parents[1] / "docs" / "how-to" / "add-a-method.md"
    assert f"<<'END'\n{module}END\n" in page.read_text(encoding="utf-8")


def test_the_method_is_planned_released_and_paid_for(
    tmp_path: Path, toys: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    words = tmp_path / "words.txt"
    log = tmp_path / "log.csv"
    assert tracecloak("sample", "--cases", 300, "--output", log, "--vocabulary", words) == 0
    given = ("--method", "last-activities", "--epsilon", 2, "--delta", 0, "--vocabulary", words)
    _, *asked = placed(tmp_path, log, *given)
    capsys.readouterr()
    assert tracecloak("plan", *asked, "--full") == 0
    plan = capsys.readouterr().out
    assert "expect each within 2 of what is counted (95 %); spends epsilon 2" in plan
    assert tracecloak("release", *asked) == 0
    folder = tmp_path / "out" / "run_id=r"
    [spend] = manifest(folder)["spends"]
    assert (spend["what"], spend["epsilon"]) == ("ends", "2")
    assert "Exact discrete noise on every number" in (folder / "statement.md").read_text()
    cells = json.loads((folder / "ends.json").read_text())["variants"]
    assert 280 < sum(cell["count"] for cell in cells) < 330
    assert all(len(cell["variant"]) == 1 for cell in cells)
    assert all(cell["low"] <= cell["count"] <= cell["high"] <= cell["low"] + 6 for cell in cells)
    assert tracecloak("release", *asked[:-2], "--release_id", "s") == 2


def test_a_stream_publishes_the_product(tmp_path: Path, toys: Any) -> None:
    config = configured(tmp_path, product="case-count", label="patients", formats="parquet")
    sent = [Sent(i, f"c{i}", "END") for i in range(25)]
    with no_noise():
        run(config, in_time(sent, 80))
    releases = published(config)
    assert [release.cells for release in releases] == [(("patients",),)] * 6
    assert [int(release.counts[0]) for release in releases][:3] == [7, 10, 8]
    written = files_of(config)
    assert "product=case-count/view=window/step-000005.parquet" in written
    assert json.loads(written["manifest.json"])["params"]["log_params"] == {"label": "patients"}
    with pytest.raises(UsageError, match="product case-count has view window"):
        configured(tmp_path, product="case-count", view="total")
    with pytest.raises(UsageError, match="label: it is for product case-count"):
        configured(tmp_path, label="patients")


def test_a_release_is_made_with_keys_of_the_source(
    tmp_path: Path, toys: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = placed(tmp_path, sample(tmp_path), *HISTOGRAM)
    assert tracecloak(*asked, "--key_encryption_key", "vault:broken") == 2
    error = capsys.readouterr().err
    assert "no key of 64 hex digits at 'vault:…' (ConnectionError)" in error
    assert "hunter2" not in error and not (tmp_path / "keys").exists()
    assert tracecloak(*asked, "--key_encryption_key", "vault:ward") == 0
    secret = (tmp_path / "keys" / "store.secret").read_text()
    assert KeyEncryptionKey.at("vault:ward").unwrap(secret, "file:s")
    assert KeyReference("vault:ward").resolve().hex().startswith(b"ward".hex())


def test_clients_of_kafka_are_known_by_the_token(
    tmp_path: Path, toys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = {"input_subscription": None, "input_topic": "kafka://a:1/t", "kafka_token": "badge"}
    properties = tmp_path / "client.properties"
    properties.write_text("security.protocol=SASL_PLAINTEXT\n")
    read = configured(tmp_path, **topic, kafka_properties=str(properties)).kafka("input_topic")
    assert read is not None
    settings = read.settings()
    assert settings["oauth_cb"]("") == ("badge for a:1", 4_102_444_800.0)
    assert (settings["sasl.mechanisms"], settings["security.protocol"]) == (
        "OAUTHBEARER", "SASL_PLAINTEXT",
    )  # fmt: skip
    # What it says is told at the start, before any broker is asked; what others raise is not.
    for text, kind, told in (
        ("broken", UsageError, r"kafka_token badge failed \(ConnectionError\)$"),
        ("away", RetryLater, "kafka_token badge: the porter is at lunch"),
    ):
        properties.write_text(f"sasl.oauthbearer.config={text}\n")
        with pytest.raises(kind, match=told):
            read.check()


def test_the_schemas_of_configurations_know_all(tmp_path: Path, toys: Any) -> None:
    assert further_fields()["label"].description == "What the one cell is called."
    body: dict[str, Any] = {
        "log": "a", "input_format": "toy", "method": "private-log", "output": "o",
        "formats": ["toy"],
    }  # fmt: skip
    jsonschema.validate(body, json_schema())
    assert "last-activities" in json_schema()["properties"]["method"]["enum"]
    stream: dict[str, Any] = {
        "release_id": "r", "epoch": "1", "output": "o", "epsilon": "1", "vocabulary": ["A"],
        "period": "1h", "horizon": 2, "start": "2026-01-01", "gap": "1h", "max_lifetime": "1d",
        "product": "case-count", "log_params": {"label": "x"}, "formats": ["toy"],
    }  # fmt: skip
    jsonschema.validate(stream, stream_json_schema())


def test_without_the_distribution_none_is_known(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The control: it is the entry points that make them known."""
    assert tracecloak("sample", "--cases", 3, "--output", tmp_path / "log.toy") == 2
    assert "say input_format: xes, csv, parquet, avro, jsonl" in capsys.readouterr().err
    for schema, name in ((json_schema(), "toy"), (stream_json_schema(), "case-count")):
        assert f'"{name}"' not in json.dumps(schema)
    with pytest.raises(UsageError, match="product: must be one of dfg, variants,"):
        configured(tmp_path, product="case-count")
    with pytest.raises(UsageError, match="key source must be one of command, env,"):
        KeyReference("vault:ward")
    topic = {"input_subscription": None, "input_topic": "kafka://a:1/t", "kafka_token": "badge"}
    with pytest.raises(UsageError, match="kafka_token: must be one of msk, got"):
        configured(tmp_path, **topic)
