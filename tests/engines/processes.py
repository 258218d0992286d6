"""Processes of engines: started, waited for, killed, started again, and ended whatever happens."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

GUARD = Path(__file__).parent / "guard.py"
START_SECONDS = 120.0
_END_SECONDS = 3.0
_LOOK_SECONDS = 0.1
_TAIL_BYTES = 4_000


def free_port() -> int:
    """Returns a port of this machine that nobody has."""
    with socket.socket() as found:
        found.bind(("localhost", 0))
        return int(found.getsockname()[1])


def answers(port: int) -> bool:
    """Whether somebody listens on a port of this machine."""
    try:
        socket.create_connection(("localhost", port), 1).close()
    except OSError:
        return False
    return True


def wait_until(
    is_so: Callable[[], bool], seconds: float, otherwise: Callable[[], str], *alive: Process
) -> None:
    """Waits until a condition holds."""
    deadline = time.monotonic() + seconds
    while not is_so():
        ended = [process.name for process in alive if not process.is_alive()]
        if ended or time.monotonic() > deadline:
            why = f"{ended[0]} ended" if ended else f"not within {seconds:.0f} s"
            tails = "".join(process.tail() for process in alive)
            raise RuntimeError(f"{otherwise()}: {why}\n{tails}")
        time.sleep(_LOOK_SECONDS)


class Process:
    """A program of an engine, with a log of its own; what it starts itself is ended with it."""

    def __init__(
        self,
        name: str,
        command: Sequence[object],
        folder: Path,
        is_up: Callable[[], bool],
        environment: Mapping[str, str] | None = None,
        user: str = "",
    ) -> None:
        """Starts nothing."""
        self.name = name
        self.log = folder / f"{name}.log"
        self._command = [str(part) for part in command]
        self._folder = folder
        self._is_up = is_up
        self._environment = {**os.environ, **(environment or {})}
        self._user = user
        self._running: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        """The number of the process that runs, or that ran last."""
        assert self._running is not None, f"{self.name} was never started"
        return self._running.pid

    def is_alive(self) -> bool:
        """Whether it runs."""
        return self._running is not None and self._running.poll() is None

    def start(self, wait: bool = True) -> None:
        """Starts it, and waits until it answers."""
        assert not self.is_alive(), f"{self.name} runs already"
        # Not `-m`: nothing of this project is imported before the engine has the process.
        guarded = [sys.executable, "-S", "-E", str(GUARD), str(os.getpid()), self._user]
        with self.log.open("ab") as stream:
            self._running = subprocess.Popen(
                [*guarded, *self._command],
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=subprocess.STDOUT,
                cwd=self._folder,
                env=self._environment,
                start_new_session=True,
            )
        if wait:
            self.wait_up()

    def wait_up(self) -> None:
        """Waits until it answers; see `start`."""
        wait_until(self._is_up, START_SECONDS, lambda: f"{self.name} does not answer", self)

    def kill_9(self) -> None:
        """Kills it and what it started, as a machine does that loses power."""
        self._signal(signal.SIGKILL)
        assert self._running is not None
        self._running.wait()

    def terminate(self) -> None:
        """Asks it to end, as a supervisor does."""
        self._signal(signal.SIGTERM)

    def wait(self, seconds: float) -> int:
        """Waits until it ends by itself, and returns its exit code."""
        assert self._running is not None, f"{self.name} was never started"
        wait_until(
            lambda: not self.is_alive(), seconds, lambda: f"{self.name} goes on\n{self.tail()}"
        )
        return int(self._running.wait())

    def end(self) -> None:
        """Ends it, by force if it does not end by itself."""
        if self.is_alive():
            assert self._running is not None
            self._running.terminate()
            try:
                self._running.wait(_END_SECONDS)
            except subprocess.TimeoutExpired:
                pass
        if self._running is not None:
            self.kill_9()

    def said(self) -> str:
        """Returns its log."""
        return self.log.read_text(errors="replace") if self.log.exists() else ""

    def tail(self) -> str:
        """Returns the end of its log, under its name."""
        return f"--- the end of {self.log.name}\n{self.said()[-_TAIL_BYTES:]}"

    def _signal(self, number: signal.Signals) -> None:
        try:
            os.killpg(self.pid, number)
        except ProcessLookupError:
            pass


@contextmanager
def running(*processes: Process) -> Iterator[None]:
    """Starts processes one after the other, and ends them in the opposite order."""
    try:
        for process in processes:
            process.start()
        yield
    finally:
        for process in reversed(processes):
            process.end()
