"""Fresh keys for all tests: whether a statistical bound holds for the keys that nobody chose.

By day the keys are fixed, so that a failure is of the change at hand; a bound that holds by luck
alone passes then for ever. With --fresh-keys a number is drawn for the run, of which all keys of
tests follow that are made in the test's own process. A test that fails is repeated under 200 other
numbers, of which at most 6 may fail: a bound that holds for 99 of 100 keys fails more often once in
200 times, and one that holds for 90 passes once in 10,000 times. --keys NUMBER is the same run
again, and --failure-rates lists how many of so many numbers each test fails for.

What a test's module caches, and all fixtures, are made anew for each number.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator
from itertools import islice
from random import Random
from typing import Any

import pytest
from _pytest.runner import runtestprotocol

from tests.support.keys import Draw

N_MORE, MOST_FAILED = 200, 6
_NUMBERS = 2**31
_NAME = "keys"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declares the flags."""
    group = parser.getgroup("keys")
    group.addoption(
        "--keys", type=int, default=0, metavar="NUMBER", help="what the keys of tests follow from"
    )
    group.addoption(
        "--fresh-keys", action="store_true", help="draw that number, and repeat what fails"
    )
    group.addoption(
        "--failure-rates", type=int, metavar="N", help="run each test under N more numbers"
    )
    group.addoption(
        "--rate-seconds",
        type=float,
        default=60,
        metavar="S",
        help="but no longer than so much of the processor",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Draws the number, which workers of this process get with its options."""
    options = config.option
    repeats = options.fresh_keys or options.failure_rates
    if repeats and not options.keys:
        options.keys = 1 + secrets.randbelow(_NUMBERS - 1)
    Draw.number = options.keys
    if repeats:
        config.pluginmanager.register(_Repeats(options.failure_rates, options.rate_seconds))


class _Repeats:
    """Repeats tests under other numbers.

    Args:
        n_rated: How often each test is repeated; None: tests that fail are, until they may not.
        seconds: After which none is repeated that is rated.
    """

    def __init__(self, n_rated: int | None, seconds: float) -> None:
        self._n_rated, self._seconds = n_rated, seconds
        self._said: list[str] = []

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: pytest.Item | None) -> bool:
        item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
        own = Draw.number
        before = Draw.n_keys
        reports = runtestprotocol(item, log=False, nextitem=nextitem)
        draws, failed = Draw.n_keys > before, [report for report in reports if report.failed]
        if failed or (self._n_rated and draws):
            text, may_pass = self._judged(item, own)
            _begin(item, own)
            for report in failed or reports[-1:]:
                report.sections.append((_NAME, text))
                report.user_properties.append((_NAME, text))
                if may_pass and report.failed:
                    report.outcome, report.longrepr = "passed", None
        for report in reports:
            item.ihook.pytest_runtest_logreport(report=report)
        item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
        return True

    def _judged(self, item: pytest.Item, own: int) -> tuple[str, bool]:
        """Returns what happened under other numbers, and whether that may be."""
        n_more, n_failed, seen, began = self._n_rated or N_MORE, 0, 0, time.process_time()
        first: int | None = None
        for number, holds in islice(_outcomes(item, own), n_more):
            seen, n_failed = seen + 1, n_failed + (not holds)
            first = first or (None if holds else number)
            is_over = self._n_rated and time.process_time() - began > self._seconds
            if number is None or is_over or (n_failed > MOST_FAILED and not self._n_rated):
                break
        text = f"--keys {own}, and {n_failed} of {seen} other numbers fail"
        if first is not None:
            text += f", such as {first}"
        return text, n_failed <= MOST_FAILED * seen / N_MORE

    def pytest_runtest_logreport(self, report: Any) -> None:
        for name, text in report.user_properties:
            if name == _NAME and f"{report.nodeid}: {text}" not in self._said:
                self._said.append(f"{report.nodeid}: {text}")

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        if self._said:
            terminalreporter.section("under other keys")
            for line in self._said:
                terminalreporter.write_line(line)

    def pytest_report_header(self) -> str:
        return f"keys: {Draw.number}"


def _outcomes(item: pytest.Item, own: int) -> Iterator[tuple[int | None, bool]]:
    """Yields other numbers, each with whether the test passes; None: it makes no keys at all."""
    numbers = Random(own)
    while True:
        number, before = numbers.randrange(1, _NUMBERS), Draw.n_keys
        _begin(item, number)
        holds = not any(r.failed for r in runtestprotocol(item, log=False, nextitem=None))
        yield number if Draw.n_keys > before else None, holds


def _begin(item: pytest.Item, number: int) -> None:
    """Lets a test begin anew under a number, with all of its time."""
    Draw.number = number
    item.session._setupstate.teardown_exact(None)
    module = item.getparent(pytest.Module)
    for cached in vars(module.obj).values() if module else ():
        if hasattr(cached, "cache_clear") and _is_of_tests(cached, module.obj):
            cached.cache_clear()
    if item.config.pluginmanager.hasplugin("timeout"):
        from pytest_timeout import _get_item_settings

        settings = _get_item_settings(item)
        item.ihook.pytest_timeout_cancel_timer(item=item)
        if settings.timeout:
            item.ihook.pytest_timeout_set_timer(item=item, settings=settings)


def _is_of_tests(cached: Any, module: Any) -> bool:
    return cached.__module__ == module.__name__ or cached.__module__.startswith("tests.")
