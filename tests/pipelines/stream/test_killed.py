"""A stream that is killed goes on where it was: the same bytes, one spend, on both executors."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.support.local_streams import NAME, Script, state_files
from tests.support.releasing import counting_charges, fix_key, key_files
from tests.support.stream_runs import (
    STREAMS,
    Happening,
    made,
    script,
    steps_of,
    stream_config,
    stream_of,
)
from tracecloak.pipelines.keys.key_store import KeyStore
from tracecloak.pipelines.ledger.ledger import Ledger
from tracecloak.pipelines.stream import epoch as epochs
from tracecloak.pipelines.stream import run as running
from tracecloak.pipelines.stream.config import StreamConfig
from tracecloak.pipelines.stream.epoch import paid_epoch
from tracecloak.pipelines.stream.local_run import run_epoch, stop_on_signal
from tracecloak.pipelines.stream.plan import resolve
from tracecloak.schemas.errors import BudgetExhausted
from tracecloak.transforms.stream import step_sinks
from tracecloak.transforms.stream.local_stream import LocalState
from tracecloak.transforms.stream.sources import MessageBatch

KILLED = ("dfg totals", "variants of individuals", "log")


class Acknowledged(Script):
    """A subscription: it has no positions, and gives again what was not acknowledged."""

    def __init__(self, happenings: Iterable[Happening], folder: Path) -> None:
        self._noted = folder / "acknowledged"
        place = int(self._noted.read_text()) if self._noted.exists() else 0
        super().__init__(happenings, {"place": place})

    @property
    def positions(self) -> Mapping[str, Any]:
        return {}

    def let_go(self, pulled: MessageBatch) -> None:
        if pulled.receipt is not None:
            self._noted.write_text(str(pulled.receipt))


class Appending:
    """A topic in a file: it keeps whatever it was ever sent."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def send(self, released: Any) -> None:
        with self._path.open("a") as stream:
            stream.write(json.dumps([released.key[-1], released.to_json().decode()]) + "\n")


def run_once(config: StreamConfig, folder: Path, source: str) -> None:
    """Runs the stream from where it is to its end; on Beam's runner here it begins anew."""
    topic = Appending(folder / "topic")
    if source == "Beam":
        with pytest.MonkeyPatch.context() as patch:
            for module in (epochs, running):
                patch.setattr(module, "step_sinks", lambda _: [topic])
            running.run_stream(config, messages=stream_of(script()))
        return

    def opening(positions: Mapping[str, Any], _: bytes) -> Script:
        return Script(script(), positions) if source == "topic" else Acknowledged(script(), folder)

    with paid_epoch(resolve(config)) as epoch, stop_on_signal() as stop:
        run_epoch(epoch, opening, NAME, [topic], stop, lambda: float(1 << 40))


# The head is the last that a transaction of a state writes; of a key store these are the note, the
# key, and the state behind it.
LASTING: Sequence[tuple[Any, Sequence[str]]] = (
    (LocalState, ("create", "write", "sent", "_put_head")),
    (step_sinks, ("rename", "write_sealed")), (Appending, ("send",)), (Ledger, ("note_step",)),
    (KeyStore, ("note_step", "commit", "remove")),
    (Script, ("let_go",)), (Acknowledged, ("let_go",)),
)  # fmt: skip


def hooked(
    patch: pytest.MonkeyPatch,
    passed: Callable[[str], None],
    lasting: Sequence[tuple[Any, Sequence[str]]] = LASTING,
) -> None:
    """Has something called before and after whatever lasts."""

    def around(owner: Any, name: str) -> None:
        original = getattr(owner, name)

        def call(*arguments: Any, **named: Any) -> Any:
            passed(f"before {name}")
            result = original(*arguments, **named)
            passed(f"after {name}")
            return result

        patch.setattr(owner, name, call)

    for owner, names in lasting:
        for name in names:
            around(owner, name)


def killed_at(config: StreamConfig, folder: Path, number: int, source: str) -> bool:
    """Runs the stream in a process that is killed when so much has passed; whether it was."""
    child = os.fork()
    if child == 0:
        left = [number]

        def passed(_: str) -> None:
            left[0] -= 1
            if left[0] == 0:
                os.kill(os.getpid(), signal.SIGKILL)

        try:
            with pytest.MonkeyPatch.context() as patch:
                hooked(patch, passed)
                run_once(config, folder, source)
            os._exit(0)
        except BudgetExhausted:  # it was killed when all was done
            os._exit(0)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    assert code in (0, -signal.SIGKILL), code
    return code != 0


def topic_of(folder: Path) -> dict[int, set[str]]:
    found: dict[int, set[str]] = {}
    for line in (folder / "topic").read_text().splitlines():
        step, data = json.loads(line)
        found.setdefault(step, set()).add(data)
    return found


def check_kills(tmp_path: Path, name: str, source: str, every: int, horizon: int) -> int:
    """Kills a stream at every so manieth place, and again at another one; how many it were."""
    changes = {**STREAMS[name], "horizon": horizon}
    whole = tmp_path / made(tmp_path, "undisturbed")[0]
    config = stream_config(whole, **changes)
    seen: list[str] = []
    with pytest.MonkeyPatch.context() as patch:
        hooked(patch, seen.append)
        run_once(config, whole, source)
    expected, sent = steps_of(config), topic_of(whole)
    numbers = range(min(every, 3), len(seen) + 1, every)
    for number in numbers:
        folder = tmp_path / str(number)
        folder.mkdir()
        config = stream_config(folder, **changes)
        n_kills = 0
        while killed_at(config, folder, number, source):
            before = steps_of(config)
            assert all(expected[path] == data for path, data in before.items()), number
            n_kills += 1
            if n_kills == 2:  # and then it is left alone
                with contextlib.suppress(BudgetExhausted):  # it was killed when all was done
                    run_once(config, folder, source)
                break
        assert steps_of(config) == expected, number
        assert topic_of(folder) == sent, number
        assert len(counting_charges(folder / "keys")) == 1, number
        # The epoch has ended: its key and its state are gone.
        assert state_files(folder / "keys") == [], number
        assert len(key_files(folder / "keys")) == 1, number
    return len(numbers)


EVERY_PLACE = [pytest.mark.slow, pytest.mark.timeout(1800)]


@pytest.mark.parametrize(
    ("name", "source", "every", "horizon"),
    [
        ("dfg totals", "topic", 19, 3),
        ("dfg totals", "Beam", 13, 3),
        pytest.param("dfg totals", "subscription", 19, 5, marks=pytest.mark.slow),
        *(
            pytest.param(name, source, 1, 5, marks=EVERY_PLACE)
            for name in KILLED
            for source in ("topic", "subscription", "Beam")
        ),
    ],
)
def test_it_goes_on_after_kills_as_if_there_were_none(
    tmp_path: Path, name: str, source: str, every: int, horizon: int
) -> None:
    """Its source has positions, acknowledges messages, or gives a runner of Beam all again."""
    with pytest.MonkeyPatch.context() as patch:
        fix_key(patch)
        n_killed = check_kills(tmp_path, name, source, every, horizon)
    assert n_killed > (50 if every == 1 else 3)
