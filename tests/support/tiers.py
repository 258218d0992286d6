"""Which tests are for the night, and which of these CI asks for all the same."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pytest
from hypothesis import settings

_PAGES = "tests/docs/test_pages.py::test_a_page_can_be_worked_through"
_RELEASES = "tests/pipelines/release"
# Of the slow tests those that CI runs: what fast tests have a small twin of. A name is that of a
# file, a test, or a test with its parameters, or all but the last of them.
IN_CI = (
    *(f"{_PAGES}[{page}]" for page in (
        "README.md",
        "docs/explanation/windows.md",
        "docs/how-to/read-a-data-lake.md",
        "docs/how-to/runners.md",
    )),
    "tests/docs/test_site.py::test_the_site_is_whole_and_loads_nothing_from_elsewhere",
    "tests/test_packaging.py::test_what_is_imported_is_what_is_asked_for",
    "tests/kept/test_going_on.py",
    "tests/golden/test_elsewhere.py::test_releases_are_the_same_elsewhere[some]",
    f"{_RELEASES}/test_what_others_read.py::test_what_workers_find_lands_with_it[runner0]",
    f"{_RELEASES}/test_worth.py::test_each_family_is_worth_much_epsilon_and_not_little",
    "tests/pipelines/frames/test_frames_released.py",
    "tests/pipelines/embedded/test_written.py",
    "tests/deploy/test_flex_template.py::"
    "test_a_release_is_finished_by_the_next_start_and_charged_once[before ledger 1]",
    "tests/golden/test_golden.py",
    f"{_RELEASES}/test_killed.py::"
    "test_a_killed_release_is_all_or_nothing_paid_once_and_completed_by_the_next_run"
    "[variant-histogram-InMemory",
    "tests/pipelines/budget/test_ledger_postgres.py",
    f"{_RELEASES}/test_faults.py",
    f"{_RELEASES}/test_books.py",
    "tests/pipelines/commands/test_progress.py",
    "tests/pipelines/runners/test_flink.py::"
    "test_an_error_on_flink_is_told_as_everywhere_and_nothing_is_released",
    "tests/pipelines/runners/test_failures.py",
    "tests/statistical/test_audit_controls.py::test_right_noise_is_passed",
    "tests/test_notebooks.py",
    "tests/test_without_links.py",
)  # fmt: skip


def at_night(*values: Any) -> Any:
    """Returns parameters whose test is slow; others of the same test stay in `make test`."""
    return pytest.param(*values, marks=pytest.mark.slow)


def each_row(names: str | Sequence[str], table: Iterable[Any]) -> Callable[..., Any]:
    """Has one test go through a table, for what is quick and leaves nothing behind.

    Args:
        names: Of the columns, as for `pytest.mark.parametrize`.
        table: Its rows; a failure names its own.
    """
    columns = [names] if isinstance(names, str) else list(names)

    def decorate(function: Callable[..., None]) -> Callable[..., None]:
        def test(**fixtures: Any) -> None:
            for row in table:
                values = [row] if isinstance(names, str) else row
                try:
                    function(**fixtures, **dict(zip(columns, values, strict=True)))
                except BaseException as error:
                    error.add_note(f"of the row {row!r}")
                    raise

        functools.update_wrapper(test, function)
        signature = inspect.signature(function)
        own = [one for name, one in signature.parameters.items() if name not in columns]
        test.__signature__ = signature.replace(parameters=own)  # type: ignore[attr-defined]
        return test

    return decorate


def few_examples(**others: Any) -> settings:
    """Returns settings of a property of which one example is dear: a third of the profile's."""
    return settings(max_examples=settings().max_examples // 3, **others)


def is_in_ci(test: str) -> bool:
    """Returns whether CI runs a test, given as pytest names it, although it is slow."""
    places = (test.split("::")[0], test.split("[")[0], test.rpartition("-")[0], test)
    return any(place in IN_CI for place in places)
