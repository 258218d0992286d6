"""The tests that CI asks for although they are slow are there."""

from __future__ import annotations

import re
from pathlib import Path

from tests.support.tiers import IN_CI, is_in_ci

ROOT = Path(__file__).parents[2]


def test_each_name_is_that_of_a_slow_test() -> None:
    for name in IN_CI:
        path, _, test = name.partition("::")
        text = (ROOT / path).read_text(encoding="utf-8")
        assert "at_night(" in text or "pytest.mark.slow" in text, name
        assert not test or f"def {test.partition('[')[0]}(" in text, name
    pages = [re.findall(r"\[(.*)\]", name) for name in IN_CI if "test_pages" in name]
    assert all((ROOT / page).is_file() for [page] in pages) and len(pages) > 3


def test_a_file_a_test_and_its_parameters_are_names() -> None:
    site = "tests/docs/test_site.py::test_the_site_is_whole_and_loads_nothing_from_elsewhere"
    assert is_in_ci(site)
    assert is_in_ci("tests/pipelines/release/test_killed.py::test_it_is_the_same_on_beam[after]")
    page = "tests/docs/test_pages.py::test_a_page_can_be_worked_through"
    assert is_in_ci(f"{page}[README.md]") and not is_in_ci(f"{page}[docs/how-to/budgets.md]")
    assert not is_in_ci("tests/pipelines/release/test_killed.py::test_another")
