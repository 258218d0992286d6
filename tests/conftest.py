"""Fixtures of all tests."""

from __future__ import annotations

import os
import shutil
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import settings

from tests.support import fresh_keys
from tests.support.keys import Repeatable
from tests.support.tiers import is_in_ci

if TYPE_CHECKING:
    from tests.support.releasing import Commands

# An example's time says more about the machine's load than about the code. Every run draws other
# examples, so few in each of many runs find what many in one would; at night there are many.
settings.register_profile("tests", deadline=None, max_examples=25)
settings.register_profile("night", deadline=None, max_examples=400)
settings.load_profile("tests")


@pytest.hookimpl(tryfirst=True)  # before tests are chosen by their marks
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    n_cases = Counter[str]()
    for item in items:
        # Of a test that is marked `by_day(n)` the cases after the first n are for the night.
        name = item.nodeid.partition("[")[0]
        n_cases[name] += 1
        if (day := item.get_closest_marker("by_day")) and n_cases[name] > day.args[0]:
            item.add_marker("slow")
        if item.get_closest_marker("slow") and is_in_ci(item.nodeid):
            item.add_marker("ci")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """Skips what needs gensim where there is none for this Python; `setup.py` says so of its extra.

    It is looked for by its error, since any test of all methods meets it in one of many examples.
    """
    try:
        return (yield)
    except Exception as error:
        if sys.version_info >= (3, 14) and "needs gensim, which is not installed" in str(error):
            pytest.skip("gensim is not there for this Python")
        raise


def pytest_addoption(parser: pytest.Parser) -> None:
    fresh_keys.pytest_addoption(parser)


def pytest_configure(config: pytest.Config) -> None:
    fresh_keys.pytest_configure(config)


@pytest.fixture(scope="session")
def logs_folder() -> Path:
    """The folder of public research logs; the test is skipped where there is none."""
    named = os.environ.get("TRACECLOAK_LOGS")
    if not named:
        pytest.skip("TRACECLOAK_LOGS names no folder of public research logs")
    return Path(named)


@pytest.fixture(scope="session", autouse=True)
def home_left_alone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keys and budgets of tests that name no key store are not those of who runs the tests."""
    with pytest.MonkeyPatch.context() as patch:
        # Argparse, of which Beam makes a parser for each look at its options, would search the
        # disk for translations and ask for the size of the terminal every time.
        for name, value in {"LANGUAGE": "C", "COLUMNS": "80", "LINES": "24"}.items():
            patch.setenv(name, value)
        patch.setenv("TRACECLOAK_KEY_STORE", str(tmp_path_factory.mktemp("keys") / "default"))
        patch.delenv("TRACECLOAK_KEY_ENCRYPTION_KEY", raising=False)
        yield


@pytest.fixture(scope="session", autouse=True)
def first_account() -> Iterator[Callable[..., Any]]:
    """Releases of tests begin no account with caps, as many of them ask for a large epsilon.

    The value is what begins one, for tests of that.
    """
    from tracecloak.pipelines.ledger import caps

    begins = caps.first_account
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(caps, "first_account", lambda past, reservation: None)
        yield begins


@pytest.fixture(scope="session", autouse=True)
def classes_of_beam_seen_once() -> Iterator[None]:
    """Beam asks a DoFn for its state and timers at every bundle, half of the time of streams.

    They are those of its class, and a function that is mapped has none here. Where no test has
    loaded Beam, this does not either.
    """
    if "apache_beam" not in sys.modules:
        yield
        return
    from apache_beam.transforms import userstate
    from apache_beam.transforms.core import CallableWrapperDoFn, DoFn

    asked = userstate.get_dofn_specs
    specs: dict[type[DoFn], Any] = {}

    def of_class(dofn: DoFn) -> Any:
        if isinstance(dofn, CallableWrapperDoFn):
            return set(), set()
        if type(dofn) not in specs:
            specs[type(dofn)] = asked(dofn)
        return specs[type(dofn)]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(userstate, "get_dofn_specs", of_class)
        yield


@pytest.fixture(scope="session")
def commands() -> Iterator[Commands]:
    """Runs commands in processes of their own; what they are forked from starts once a session."""
    from tests.support.releasing import Commands

    with Commands() as running:
        yield running


@pytest.fixture(scope="session", autouse=True)
def repeatable_keys() -> Iterator[Repeatable]:
    """Keys, coins and made-up cases that would come from the operating system are of the tests.

    Other processes than the test's draw theirs as always.
    """
    repeatable = Repeatable()
    with pytest.MonkeyPatch.context() as patch:
        for module in (
            "tracecloak.anonymizers.noise.randomness",
            "tracecloak.examination.attack.run",
            "tracecloak.examination.attack.neighbours",
            "tracecloak.pipelines.keys.key_store",
        ):
            patch.setattr(f"{module}.secrets", repeatable)
        yield repeatable


@pytest.fixture(autouse=True)
def keys_of_a_test(request: pytest.FixtureRequest, repeatable_keys: Repeatable) -> None:
    """Each test has its own, whatever ran before it."""
    repeatable_keys.begin(request.node.nodeid)


@pytest.hookimpl(tryfirst=True)
def pytest_fixture_setup(fixturedef: Any, request: Any) -> None:
    """And so has each fixture that tests share, whichever of them asks for it first."""
    if fixturedef.scope != "function" and fixturedef.argname != "repeatable_keys":
        repeatable = request.getfixturevalue("repeatable_keys")
        repeatable.begin(f"{fixturedef.baseid}::{fixturedef.argname} {request.param_index}")


@pytest.fixture
def same_noise_whatever_was_decided(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets rounds draw the same noise after other decisions, to compare what they make of it."""
    target = "tracecloak.anonymizers.noise.randomness.Randomness.after"
    monkeypatch.setattr(target, lambda self, decided: self)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Chromium; a test that asks for it says that it was skipped where it is not there."""
    api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    path = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("chrome")
    if path is None:
        pytest.skip("no Chromium on the PATH")
    with api.sync_playwright() as started:
        opened = started.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield opened
        opened.close()
