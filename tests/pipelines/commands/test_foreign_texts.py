"""Texts that somebody else may have written: configurations and releases that are made to harm."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.releasing import csv_log, small_rows, tracecloak

HARMFUL = {
    "aliases": "a: &a [x, x]\nb: &b [*a, *a]\nc: [*b, *b]\n",
    "brackets": "x: " + "[" * 100_000,
    "braces": "{x: " * 100_000,
    "digits": "x: " + "9" * 900_000,
    "length": "x: " + "9" * 2_000_000,
    "date": "x: 2026-99-99",
}


def as_configuration(folder: Path, text: str) -> list[object]:
    (folder / "c.yaml").write_text(text)
    return ["plan", folder / "c.yaml"]


def as_a_parameter(folder: Path, text: str) -> list[object]:
    (folder / "names.yaml").write_text(text)
    return [*_plan(folder), "--vocabulary", f"@{folder / 'names.yaml'}"]


def as_a_flag(folder: Path, text: str) -> list[object]:
    return [*_plan(folder), "--vocabulary", f"[{text}"]


def as_accounts(folder: Path, text: str) -> list[object]:
    (folder / "accounts.yaml").write_text(text)
    given = ["--release_id", "r", "--key_store", folder / "keys", "--new_ledger"]
    own = ["--buy_vocabulary", "--accounts", folder / "accounts.yaml"]
    return ["release", *_rigorous(folder), *given, *own]


def as_rules(folder: Path, text: str) -> list[object]:
    (folder / "rules.json").write_text(text)
    given = ["--log", folder / "log.csv", "--output", folder / "out", "--method", "sacofa"]
    return ["plan", *given, "--model", folder / "rules.json"]


def _plan(folder: Path) -> list[object]:
    return ["plan", *_rigorous(folder), "--expected_cases", 100]


def _rigorous(folder: Path) -> list[object]:
    given = ["--log", folder / "log.csv", "--output", folder / "out"]
    return [*given, "--method", "private-dfg", "--epsilon", 1]


@pytest.mark.parametrize(("place", "kind"), [
    *((as_configuration, kind) for kind in HARMFUL),
    *((place, "aliases") for place in (as_a_parameter, as_a_flag, as_accounts, as_rules)),
])  # fmt: skip
def test_a_text_that_is_made_to_harm_is_a_usage_error_in_few_words(
    place: Callable[[Path, str], list[object]],
    kind: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    csv_log(tmp_path / "log.csv", list(small_rows()))
    assert tracecloak(*place(tmp_path, HARMFUL[kind])) == 2
    assert len(capsys.readouterr().err) < 2000
