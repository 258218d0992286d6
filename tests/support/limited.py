"""Commands in processes of their own that may take so much processor time and memory, and no more.

What they took is measured by the system, in seconds of processor time and not of the clock: it says
hardly anything about what else the machine does.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn, Self

ROOT = Path(__file__).parents[2]
_MIB = 1 << 20


@dataclass(frozen=True)
class Took:
    """How a command ended, and what it took.

    Attributes:
        code: Its exit code; of a killed one, minus the signal's number.
        text: What it printed, both streams.
        cpu_s: Seconds of processor time, without the start of Python and all imports.
        peak_mib: The most memory that it had at once, with all that is imported (some 200 MiB).
    """

    code: int
    text: str
    cpu_s: float
    peak_mib: int

    @property
    def is_out_of_time(self) -> bool:
        """Whether it was killed because its time was up."""
        return self.code in (-signal.SIGXCPU, -signal.SIGKILL)


class ForkServer:
    """A process that imports everything once and forks others: a start takes long, a fork no time.

    It is `serve` of a module, which answers a line of JSON for each line of JSON.
    """

    def __init__(self, module: str) -> None:
        self._server = subprocess.Popen(
            [sys.executable, "-c", f"from {module} import serve; serve()"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": str(ROOT), "OPENBLAS_NUM_THREADS": "1"},
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._server.communicate()

    def ask(self, **request: Any) -> dict[str, Any]:
        """Sends a request and waits for its answer."""
        assert self._server.stdin is not None and self._server.stdout is not None
        self._server.stdin.write(json.dumps(request) + "\n")
        self._server.stdin.flush()
        return json.loads(self._server.stdout.readline())


class LimitedCommands(ForkServer):
    """Runs commands one by one, each in a process that is forked from one with all imports.

    All releases have one key.
    """

    def __init__(self) -> None:
        super().__init__("tests.support.limited")

    def run(self, *arguments: object, max_cpu_s: int, max_mib: int) -> Took:
        """Runs the command.

        Args:
            arguments: Its arguments.
            max_cpu_s: Seconds of processor time after which it is killed.
            max_mib: Address space in MiB beyond which it gets no more.
        """
        given = [str(argument) for argument in arguments]
        return Took(**self.ask(arguments=given, max_cpu_s=max_cpu_s, max_mib=max_mib))


def serve() -> None:
    """Forks a command for each line of standard input; see `LimitedCommands`."""
    for name in ("tracecloak.pipelines.release.run", "sqlalchemy.dialects.sqlite"):
        importlib.import_module(name)
    gc.freeze()  # or each command's first collection copies what it shares with this process
    for line in sys.stdin:
        with tempfile.NamedTemporaryFile() as log:
            pid = os.fork()
            if pid == 0:
                _run_forked(log.fileno(), **json.loads(line))
            _, status, used = os.wait4(pid, 0)
            took = {
                "code": os.waitstatus_to_exitcode(status),
                "text": Path(log.name).read_text(errors="replace"),
                "cpu_s": used.ru_utime + used.ru_stime,
                "peak_mib": used.ru_maxrss // 1024,
            }
        sys.stdout.write(json.dumps(took) + "\n")
        sys.stdout.flush()


def _run_forked(log: int, arguments: Sequence[str], max_cpu_s: int, max_mib: int) -> NoReturn:
    code = 99
    try:
        from tracecloak.anonymizers.noise.randomness import ReleaseKey
        from tracecloak.pipelines.commands import main as cli

        # What noise asks for takes time and memory, too: the same in every run.
        ReleaseKey.generate = classmethod(lambda cls: cls(b"k" * 32))  # type: ignore[method-assign]
        resource.setrlimit(resource.RLIMIT_CPU, (max_cpu_s, max_cpu_s + 5))
        resource.setrlimit(resource.RLIMIT_AS, (max_mib * _MIB, max_mib * _MIB))
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(log, 1)
        os.dup2(log, 2)
        code = cli.main(list(arguments))
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(code)
