"""`tracecloak catalogue`: the list, and one method in full with an example that works."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.releasing import ROOT, tracecloak
from tests.support.tiers import at_night
from tracecloak.anonymizers.registry import METHODS
from tracecloak.examination.commands.catalogue import RECOMMENDED


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the log that examples are for, which is a smaller one here."""
    folder = tmp_path_factory.mktemp("sample")
    log, names = folder / "hospital.xes.gz", folder / "activities.txt"
    assert tracecloak("sample", "--cases", 400, "--output", log, "--vocabulary", names) == 0
    return folder


@pytest.fixture
def place(sample: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """That folder to work in, with keys and budgets of the test's own."""
    monkeypatch.chdir(sample)
    monkeypatch.setenv("TRACECLOAK_KEY_STORE", str(tmp_path / "keys"))
    return sample


def section(text: str, heading: str) -> list[str]:
    """The lines below a heading, without the blanks before them."""
    lines = text.split(f"\n{heading}", 1)[1].split("\n\n")[0].splitlines()[1:]
    return [line.removeprefix("  ") for line in lines]


def test_the_list_has_a_line_for_each_under_its_kind(capsys: pytest.CaptureFixture[str]) -> None:
    assert tracecloak("catalogue", "--all") == 0
    *paragraphs, last = capsys.readouterr().out.strip().split("\n\n")
    listed = {}
    for paragraph in paragraphs:
        heading, *lines = paragraph.splitlines()
        for line in lines:
            name, _, summary = line.strip().partition(" ")
            listed[name] = heading.partition(":")[0], summary.strip()
    assert listed == {name: (m.guarantee_kind, m.summary) for name, m in METHODS.items()}
    assert "catalogue METHOD" in last


def test_without_a_flag_those_are_listed_that_the_readme_recommends(
    capsys: pytest.CaptureFixture[str],
) -> None:
    table = (ROOT / "README.md").read_text().split("## Which method")[1].split("## ")[0]
    rows = re.findall(r"^\| (.+?) \| `([a-z-]+)` \|", table, re.MULTILINE)
    assert {name: use for use, name in rows} == RECOMMENDED
    assert len(rows) == 4
    assert tracecloak("catalogue") == 0
    text = capsys.readouterr().out
    for use, name in rows:
        assert f"To publish {use}:\n  {name} " in text
    assert text.count("To publish") == 4
    assert f"--all lists all {len(METHODS)} methods" in text
    assert tracecloak("catalogue", "--json") == 0
    assert [entry["name"] for entry in json.loads(capsys.readouterr().out)] == list(RECOMMENDED)


def test_one_method_in_full(capsys: pytest.CaptureFixture[str]) -> None:
    for name, method in METHODS.items():
        assert tracecloak("catalogue", name) == 0
        text = capsys.readouterr().out
        assert text.startswith(f"{name}: {method.summary}\n")
        assert "None" not in text and "('" not in text
        guarantee = method.guarantee(method.Params(**method.examples[0]))
        assert guarantee.kind in text and guarantee.sentence in text
        parameters = section(text, "Parameters")
        for flag, field in method.Params.model_fields.items():
            (at,) = (i for i, line in enumerate(parameters) if line.startswith(f"--{flag}  "))
            said = " ".join((field.description or "").split())
            assert said and said in parameters[at + 1], (name, flag)
            assert ("(required)" in parameters[at + 1]) == field.is_required()


# The golden digests have the examples of the others, too.
BY_DAY = ("private-dfg", "auto-variants", "sapa", "pripel", "tlkc", "k-anonymous-variants", "dpim")


@pytest.mark.parametrize("name", [name if name in BY_DAY else at_night(name) for name in METHODS])
def test_its_example_works_and_spends_what_it_says(
    name: str, place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tracecloak("catalogue", name)
    text = capsys.readouterr().out
    sample, release = map(shlex.split, section(text, "Example"))
    assert sample[:2] == ["tracecloak", "sample"] and release[:2] == ["tracecloak", "release"]
    assert {place / word for word in sample if "." in word} == set(place.iterdir())
    assert tracecloak("plan", *release[2:], "--full") == 0
    planned = capsys.readouterr().out
    parts = [line for line in section(text, "Spends") if not line.startswith("no epsilon")]
    assert [f"  {part}" for part in parts] == [
        line
        for line in planned.splitlines()
        if re.fullmatch(
            r"  .*: epsilon [\d.]+, delta [\d.]+| {4}The noise has these standard deviations: .*",
            line,
        )
    ]
    for sentence in section(text, "Does"):
        assert f"  {sentence}\n" in planned
    places = ["--output", tmp_path / "out", "--runner", "InMemory"]
    assert tracecloak(*release[1:], *places) == 0


def test_ranges_choices_and_units_are_told(capsys: pytest.CaptureFixture[str]) -> None:
    tracecloak("catalogue", "private-log")
    text = capsys.readouterr().out
    for line in (
        "--epsilon  number above 0 to 1,000",
        "--delta  number from 0 to 0.5",
        "--l2_clip  number from 1 to 100,000",
        "--products  one of log, variants",
        "--vocabulary  file",
        "--working_days  list, each one of mon, tue, wed, thu, fri, sat, sun",
        "--attributes  mapping",
    ):
        assert f"  {line}\n" in text
    tracecloak("catalogue", "dpim")
    assert "  --size_bounds  whole number, whole number\n" in capsys.readouterr().out
    tracecloak("catalogue", "amun")
    text = capsys.readouterr().out
    assert "  --start_precision_days  number above 0 or authors\n" in text
    assert "  --time_precision_us  whole number above 0\n" in text
    assert "  --log_start  time with its offset, such as 2026-01-01T00:00:00Z\n" in text


def test_an_unknown_name_is_told_with_those_that_are_close(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for name, told in (
        ("privat-log", "unknown method 'privat-log'; did you mean private-log"),
        ("xx", "unknown method 'xx'; tracecloak catalogue --all lists all"),
    ):
        assert tracecloak("catalogue", name) == 2
        assert told in capsys.readouterr().err
