"""Every command line and configuration that a document shows does what the document says.

They are run one after the other, as somebody would who reads the document, in a folder that has
nothing but what the text says there is. The fast test runs them on a smaller log and without Beam,
the slow one as they are written.
"""

from __future__ import annotations

import gzip
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import apache_beam as beam
import pyarrow as pa
import pytest
import yaml
from apache_beam.io.textio import WriteToText

from tests.support.documents import DOCUMENTS, ROOT, Block, blocks
from tests.support.releasing import as_typed, csv_log, small_rows, tracecloak
from tracecloak.pipelines.commands.table import COMMANDS, Given, command_named
from tracecloak.pipelines.demo.example_pipeline import CLAIMS, released_rows, to_canonical
from tracecloak.pipelines.demo.hospital_file import write_vocabulary
from tracecloak.pipelines.release.config import load
from tracecloak.pipelines.stream.config import load_stream

BLOCKS = [block for document in DOCUMENTS for block in blocks(document)]
COMMAND_LINES = [(block, words) for block in BLOCKS for words in block.commands]
# Commands of ours that need what a test has not; their flags and configurations are checked.
NOT_RUN = {"stream": "needs Pub/Sub, and does not end"}
# What else stands in blocks, by how it begins.
MAKE = "make "
DRAWINGS = ("releases/", "files ─►", "messages ─►")
# Flags of `plan` and `attack` that are no keys of a configuration.
NOT_OF_A_RELEASE = ("report", "releases", "cases", "checks")
# Configurations that are for `accounts`, not for a release.
ACCOUNTS = "accounts.yaml"
# What a smaller log and less work are, by command.
SMALLER: Mapping[str, Callable[[list[str]], list[str]]] = {
    "sample": lambda words: [word if word not in ("2000", "30000") else "300" for word in words],
    "release": lambda words: [*words, "--runner", "InMemory"],
    "attack": lambda words: [word if word != "2000" else "16" for word in words],
}


def claims(folder: Path) -> None:
    """What the README's `claims.yaml` reads."""
    (folder / "lake" / "claims").mkdir(parents=True)
    rows = ["Claim;Step;At;lifecycle:transition"]
    for case in range(60):
        steps = ("A_open", "A_check", "B_call", "A_close")[: 3 + case % 2]
        for hour, step in enumerate(steps, 9):
            day = 1 + case % 28
            rows.append(f"c{case};{step};2026-01-{day:02d} {hour:02d}:00:00;complete")
            rows.append(f"c{case};{step};2026-01-{day:02d} {hour:02d}:00:00;start")
    with gzip.open(folder / "lake" / "claims" / "january.csv.gz", "wt") as stream:
        stream.write("\n".join(rows) + "\n")


def log_with_attributes(folder: Path) -> Path:
    """A log that has whatever attribute the configurations of METHODS.md declare, and its names."""
    header = "case_id,activity,timestamp,org:resource,org:group,case:amount,case:Diagnose"
    rows = []
    for case, activity, stamp in small_rows(60):
        n = int(case.removeprefix("case-"))
        rows.append(f"{case},{activity},{stamp},R{1 + n % 3},R{1 + n % 2},{n * 100},{'ABC'[n % 3]}")
    path = folder / "log.csv"
    path.write_text("\n".join([header, *rows]) + "\n")
    (folder / "activities.txt").write_text("A\nB\nC\nD\n")
    return path


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder to work in, with keys and budgets of its own."""
    folder = tmp_path / "place"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.setenv("TRACECLOAK_KEY_STORE", str(tmp_path / "keys"))
    return folder


def written(document: str, folder: Path) -> None:
    """Writes the configurations that a document names."""
    for block in blocks(document):
        if block.file is not None:
            (folder / block.file).write_text(block.text)


def where(block: Block, words: list[str]) -> str:
    return f"{block.document}:{block.line}: tracecloak {' '.join(words)}"


def run(document: str, folder: Path, smaller: bool) -> int:
    """Runs a document's commands in their order, and returns how many it ran."""
    claims(folder)
    written(document, folder)
    n_run = 0
    for block in blocks(document):
        for words in block.commands:
            if words[0] not in NOT_RUN:
                made = SMALLER.get(words[0], list)(words) if smaller else words
                assert as_typed(*made) == 0, where(block, words)
                n_run += 1
    return n_run


def test_every_block_of_the_documents_is_known() -> None:
    for block in BLOCKS:
        at = f"{block.document}:{block.line}"
        assert block.kind in ("", "yaml", "python"), at
        if block.kind == "" and not block.text.startswith(DRAWINGS):
            assert all(line.startswith(("tracecloak ", MAKE)) for line in block.lines if line), at
    shown = {words[0] for _, words in COMMAND_LINES}
    assert set(NOT_RUN) < shown <= set(COMMANDS)
    assert len(COMMAND_LINES) >= 12


def test_every_make_line_of_the_documents_has_its_target_and_variables() -> None:
    makefile = (ROOT / "Makefile").read_text()
    lines = [line.split() for block in BLOCKS for line in block.lines if line.startswith(MAKE)]
    assert ["make", "demo"] in lines
    for _, target, *variables in lines:
        assert re.search(rf"^{target}:", makefile, re.MULTILINE)
        for variable in variables:
            assert re.search(rf"\$\((if \$\()?{variable.split('=')[0]}\b", makefile)


@pytest.mark.parametrize(
    ("block", "words"), COMMAND_LINES, ids=[f"{b.document}:{w[0]}" for b, w in COMMAND_LINES]
)
def test_every_command_line_of_the_documents_is_understood(
    block: Block, words: list[str], place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its flags, and the configuration that they make, without running it."""
    written(block.document, place)
    write_vocabulary("activities.txt")
    seen: list[Given] = []

    def only_checked(given: Given) -> int:
        seen.append(given)
        if words[0] == "stream":
            load_stream(given.config, given.flags)
        elif words[0] in ("release", "plan") or (words[0] == "attack" and "--linkage" not in words):
            own = {n: v for n, v in given.flags.items() if n not in NOT_OF_A_RELEASE}
            load(given.config, {"output": "nowhere", **own})
        return 0

    monkeypatch.setattr(command_named(words[0]), "run", only_checked)
    assert as_typed(*words) == 0
    (given,) = seen
    assert not given.of_beam


def test_the_commands_of_the_readme_run_in_their_order(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shown = sum(block.document == "README.md" for block, _ in COMMAND_LINES)
    assert run("README.md", place, smaller=True) == shown - len(NOT_RUN)
    for made in (
        "releases/run_id=graph-1/dfg.svg",
        "releases/run_id=graph-1/statement.md",
        "releases/run_id=log-1/log.xes.gz",
        "open/claims/run_id=claims-2026-11/manifest.json",
        "attack.json",
        "checks.json",
        "evaluation.json",
        "linkage.json",
    ):
        assert (place / made).exists(), made
    assert "Releases like the last one that still fit: 9" in capsys.readouterr().out


@pytest.mark.slow
def test_the_commands_of_the_readme_run_as_they_are_written(place: Path) -> None:
    assert run("README.md", place, smaller=False) > 10


def test_the_other_documents_show_no_command_that_no_test_runs() -> None:
    assert {block.document for block, _ in COMMAND_LINES} == {"README.md"}


def test_every_configuration_of_the_documents_makes_a_release(place: Path) -> None:
    """Those with a name stand in the commands of their document; the others are of a method."""
    log = log_with_attributes(place)
    found: list[str] = []
    for block in BLOCKS:
        if block.kind != "yaml" or block.file is not None:
            continue
        body: dict[str, Any] = yaml.safe_load(block.text)
        (place / "release.yaml").write_text(block.text)
        places = ["--input", log, "--output", "out", "--runner", "InMemory", "--release_id", "r"]
        places[-1] += str(len(found))
        assert tracecloak("release", "release.yaml", *places) == 0, f"{block.document}:{block.line}"
        found.append(body["method"])
    assert found == ["private-log", "tlkc"]


def test_every_configuration_that_has_a_name_is_in_a_command_of_its_document() -> None:
    named = {(block.document, block.file) for block in BLOCKS if block.file is not None}
    used = {(block.document, word) for block, words in COMMAND_LINES for word in words}
    assert named == {("README.md", "claims.yaml"), ("README.md", ACCOUNTS)}
    assert named <= used


def test_a_command_that_is_wrong_is_noticed(place: Path) -> None:
    csv_log(place / "log.csv", list(small_rows()))
    wrong = Block("README.md", 1, "", "tracecloak release --input log.csv --ouput x", "")
    (words,) = wrong.commands
    assert tracecloak(*words) == 2


def test_the_pipeline_of_the_readme_anonymises(place: Path) -> None:
    """Its code as it stands, with events and a key of the test's own."""
    (code,) = (block.text for block in BLOCKS if block.kind == "python")
    assert tracecloak("key", "new", "--output", place / "release.key") == 0
    code = code.replace("/secrets/release.key", str(place / "release.key"))
    with beam.Pipeline(runner="FnApiRunner") as pipeline:
        events = (
            pipeline
            | beam.Create([CLAIMS])
            | beam.Map(to_canonical).with_output_types(pa.RecordBatch)
        )
        names: dict[str, Any] = {"events": events}
        exec(code, names)
        _ = names["released"] | beam.FlatMap(released_rows) | WriteToText(str(place / "released"))
    (text,) = (path.read_text() for path in place.glob("released-*"))
    found = [literal for literal in text.splitlines() if "'activity'" in literal]
    assert found and all("'case_id'" in line and "'timestamp'" in line for line in found)
