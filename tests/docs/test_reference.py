"""The reference says what the code does: what is made is complete, what is written is true."""

from __future__ import annotations

import re

from docs.hooks import commands, methods, python
from tests.support.documents import ROOT
from tracecloak.anonymizers.registry import METHODS
from tracecloak.pipelines.commands.table import COMMANDS
from tracecloak.schemas import errors


def test_every_command_and_action_has_a_section_with_its_flags() -> None:
    page = commands.page()
    sections = set(re.findall(r"^##+ `([^`]+)`", page, re.MULTILINE))
    assert {*COMMANDS, "ledger withdraw", "key rewrap", "attack --linkage"} <= sections
    assert page.count("<code>--release_id</code>") >= 5
    assert "# `release` {" in page and "<code>--max_error_ratio</code>" in page


def test_every_method_has_a_page_with_its_parameters_and_its_promise() -> None:
    pages = dict(methods.pages())
    assert pages.keys() == {"index.md", *(f"{name}.md" for name in METHODS.ours)}
    for name in METHODS.ours:
        page = pages[f"{name}.md"]
        assert f"--method {name}" in " ".join(page.split()), name
        for param in METHODS[name].Params.model_fields:
            assert f"<code>--{param}</code>" in page, (name, param)
        assert "How it works" in page, name


def test_every_method_is_explained_once() -> None:
    """Under a heading of its own in a page of the methods."""
    found = [
        name
        for path in (ROOT / "docs" / "explanation" / "methods").glob("*.md")
        for heading in re.findall(r"^##+ (.*)$", path.read_text(), re.MULTILINE)
        for name in re.findall(r"`([a-z-]+)`", heading)
    ]
    assert sorted(found) == sorted(METHODS.ours)


def test_every_name_of_the_face_is_on_the_page_of_python() -> None:
    listed = [name for names in python.SECTIONS.values() for name in names]
    assert len(listed) == len(set(listed))
    assert {*listed, *python.IN_THE_HEAD} == python.names().keys()


def test_the_exit_codes_are_those_of_the_errors() -> None:
    page = (ROOT / "docs" / "reference" / "exit-codes.md").read_text()
    codes = [int(code) for code in re.findall(r"^\| (\d+) \|", page, re.MULTILINE)]
    raised = {
        kind.exit_code
        for kind in vars(errors).values()
        if isinstance(kind, type) and issubclass(kind, errors.TracecloakError)
    }
    # 0 is no error, and 7 is returned by what follows a commit.
    assert codes == sorted({0, 7, *raised})
