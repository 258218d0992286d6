"""What stands in blocks of the documents is understood: commands, configurations, code, data.

Nothing is run here; `test_pages.py` runs it.
"""

from __future__ import annotations

import ast
import importlib
import json
import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

import tracecloak as package
from tests.support.documents import DOCUMENTS, KINDS, PYTHON, ROOT, YAML, Block, blocks
from tests.support.releasing import as_typed
from tracecloak.examination.demo.hospital import write_vocabulary
from tracecloak.pipelines.commands.table import COMMANDS, Given, command_named
from tracecloak.pipelines.configuration.plan import load
from tracecloak.pipelines.frames.agent_server import Approval
from tracecloak.pipelines.ledger.caps import load_accounts
from tracecloak.pipelines.stream.plan import load_stream

BLOCKS = [block for document in DOCUMENTS for block in blocks(document)]
COMMAND_LINES = [(block, words) for block in BLOCKS for words in block.commands]
CONFIGURATIONS = [
    (block, name, text)
    for block in BLOCKS
    for name, text in (block.files or ({"": block.text} if block.kind == YAML else {})).items()
    if block.kind == YAML or name.endswith(".yaml")
]
# Flags of `plan` and `attack` that are no keys of a configuration.
NOT_OF_A_RELEASE = (
    "action", "report", "releases", "checks", "declared", "lineage", "metrics", "metrics_for",
    "full", "for",
)  # fmt: skip


def test_every_block_is_of_a_kind_that_is_checked() -> None:
    assert {block.kind for block in BLOCKS} <= set(KINDS), [
        block.place for block in BLOCKS if block.kind not in KINDS
    ]
    assert {words[0] for _, words in COMMAND_LINES} <= set(COMMANDS)
    assert len(COMMAND_LINES) >= 12


def test_every_make_line_has_its_target_and_variables() -> None:
    makefile = (ROOT / "Makefile").read_text()
    lines = [line.split() for block in BLOCKS for line in block.lines if line.startswith("make ")]
    assert lines
    for _, target, *variables in lines:
        assert re.search(rf"^{target}:", makefile, re.MULTILINE)
        for variable in variables:
            assert re.search(rf"\$\((if \$\()?{variable.split('=')[0]}\b", makefile)


@pytest.mark.parametrize("document", sorted({block.document for block, _ in COMMAND_LINES}))
def test_every_command_line_is_understood(
    document: str, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its flags, and the configuration that they make, without running it."""
    for other in blocks(document):
        for name, text in other.files.items():
            (place / name).write_text(text)
    for block, words in COMMAND_LINES:
        if block.document == document:
            _write_lists(words, place)
            is_understood(words, monkeypatch)


def is_understood(words: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Given] = []

    def only_checked(given: Given) -> int:
        seen.append(given)
        if words[:2] == ["stream", "positions"]:
            assert given.config is not None
        elif words[0] == "stream":
            load_stream(given.config, given.flags)
        elif words[0] in ("release", "plan") or words[:2] in (
            ["attack", "config"],
            ["attack", "checks"],
        ):
            own = {n: v for n, v in given.flags.items() if n not in NOT_OF_A_RELEASE}
            sought = {"epsilon": "1"} if "for" in given.flags else {}  # which need not be given
            load(given.config, {"output": "nowhere", **sought, **own})
        return 0

    monkeypatch.setattr(command_named(words[0]), "run", only_checked)
    if "--help" in words:
        with pytest.raises(SystemExit) as ended:
            as_typed(*words)
        assert ended.value.code == 0
        return
    assert as_typed(*words) == 0
    assert len(seen) == 1


def _write_lists(words: list[str], folder: Path) -> None:
    """Writes the vocabularies that a command and the configurations beside it name."""
    named = [after for flag, after in pairwise(words) if flag == "--vocabulary"]
    for path in folder.glob("*.yaml"):
        named += re.findall(r"\bvocabulary: ([\w./-]+\.txt)", path.read_text())
    for name in named:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        write_vocabulary(str(folder / name))


@pytest.mark.parametrize(
    ("block", "name", "text"), CONFIGURATIONS, ids=[b.place for b, _, _ in CONFIGURATIONS]
)
def test_every_configuration_is_one(block: Block, name: str, text: str, place: Path) -> None:
    """By the schema of what it configures; what a page leaves out is given."""
    body: dict[str, Any] = yaml.safe_load(text)
    if "accounts" in body:
        (place / "accounts.yaml").write_text(text)
        assert load_accounts("accounts.yaml")
        return
    if "questions" in body:  # of a session, and its keys are those of a configuration
        assert Approval(questions=body.pop("questions"), expires=body.pop("expires"))
        body |= {"method": "private-dfg", "params": {"epsilon": 1, **body["params"]}}
    if "pipeline" in body:  # of Beam YAML, whose constructors check their keys
        write_vocabulary("activities.txt")
        known = yaml.safe_load((ROOT / "pipelines/embedded/providers.yaml").read_text())
        doors = known[0]["transforms"]
        ours = [t for t in body["pipeline"]["transforms"] if t["type"] in doors]
        assert ours
        for one in ours:
            name = doors[one["type"]].removeprefix("tracecloak.")
            assert getattr(package, name)(**one["config"])
        return
    kind = "release" if "method" in body else "stream"
    schema = json.loads((ROOT / "schemas" / "files" / f"{kind}.schema.json").read_text())
    schema["required"] = []
    jsonschema.validate(json.loads(json.dumps(body, default=str)), schema)  # dates are texts


def test_all_code_compiles_and_imports_what_there_is() -> None:
    for block in (block for block in BLOCKS if block.kind == PYTHON):
        for node in ast.walk(ast.parse(block.text)):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("tracecloak"):
                module = importlib.import_module(node.module or "")
                assert all(hasattr(module, alias.name) for alias in node.names), block.place
