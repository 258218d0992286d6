"""What one run has of the product: modules loaded, and functions entered, by floor and room.

    python -m tests.support.reach private-dfg FOLDER

runs it in this process and prints the counts as JSON; `reach_of` does so in a process of its own,
so that nothing counts but what the run imports. This file therefore imports nothing of the product
before it counts.
"""

from __future__ import annotations

import ast
import inspect
import io
import json
import subprocess
import sys
import threading
import tokenize
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[2]
FLOORS = ("schemas", "anonymizers", "transforms", "pipelines", "examination")
_NO_CODE = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT)
_ONE_US = 1_000_000


class Reach(NamedTuple):
    """What a run has of the product.

    Attributes:
        lines: Lines of every module that is loaded, by its path in the repository.
        functions: Functions entered at least once, by the same path; what its import alone enters
            counts as well, and comprehensions, lambdas and bodies of classes do not.
    """

    lines: Mapping[str, int]
    functions: Mapping[str, int]

    @property
    def n_lines(self) -> int:
        """Lines of all modules that are loaded."""
        return sum(self.lines.values())

    @property
    def n_functions(self) -> int:
        """Functions entered in all of them."""
        return sum(self.functions.values())

    @property
    def n_files(self) -> int:
        """Files of which a function is entered."""
        return sum(n > 0 for n in self.functions.values())

    def by_room(self) -> dict[str, tuple[int, int]]:
        """(lines, functions) by room, the largest first."""
        lines, functions = Counter[str](), Counter[str]()
        for path, n_lines in self.lines.items():
            room = "/".join(path.removesuffix(".py").split("/")[:2])
            lines[room] += n_lines
            functions[room] += self.functions.get(path, 0)
        return {room: (n, functions[room]) for room, n in lines.most_common()}


def reach_of(run: str, folder: Path) -> Reach:
    """Returns what a run of `RUNS` has of the product; it happens in an empty folder."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.support.reach", run, str(folder)],
        capture_output=True,
        text=True,
        timeout=300,
        cwd=ROOT,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return Reach(*json.loads(done.stdout.splitlines()[-1]))


def n_statements(source: str) -> int:
    """Returns the lines of code in a source, without docstrings, comments and blank lines."""
    lines = {
        line
        for token in tokenize.generate_tokens(io.StringIO(source).readline)
        if token.type not in _NO_CODE and token.string
        for line in range(token.start[0], token.end[0] + 1)
    }
    for node in ast.walk(ast.parse(source)):
        for child in ast.iter_child_nodes(node):
            # The text of a docstring, and of those behind a name.
            if isinstance(child, ast.Expr) and isinstance(child.value, ast.Constant):
                if isinstance(child.value.value, str):
                    lines -= set(range(child.lineno, (child.end_lineno or child.lineno) + 1))
    return len(lines)


# --- The runs, each in a process of its own -------------------------------------------------------


def release(method: str, folder: Path) -> None:
    """One release of a file of CSV by the command, in memory."""
    _log(folder / "log.csv")
    flags = [
        "--log", str(folder / "log.csv"), "--output", str(folder / "out"), "--method", method,
        "--epsilon", "1", "--vocabulary", '["A", "B", "C", "D"]', "--release_id", "r",
        "--new_ledger", "--runner", "InMemory",
    ]  # fmt: skip
    _command("release", *flags)


def window(folder: Path) -> None:
    """One window of a schedule by the command, in memory, with the claim of its cases."""
    (folder / "lake").mkdir()
    _log(folder / "lake" / "log.csv")
    config = folder / "window.yaml"
    schedule = {
        "dataset": "ward", "origin": "2026-01-01", "period": "month", "gap": "5d",
        "max_lifetime": "20d", "release_delay": "2d", "horizon": 4,
    }  # fmt: skip
    body = {
        "log": str(folder / "lake"), "output": str(folder / "out"), "release_id": "ward",
        "runner": "InMemory", "method": "private-dfg", "schedule": schedule,
        "params": {"epsilon": "1", "vocabulary": ["A", "B", "C", "D"]},
    }  # fmt: skip
    config.write_text(json.dumps(body))
    _command("release", str(config), "--window", "2026-01", "--new_ledger")
    assert list((folder / "keys" / "book").rglob("*.units")), "no case was claimed"


def step(folder: Path) -> None:
    """One step of a stream on this machine, which its epoch ends with."""
    from tracecloak.pipelines.stream.config import load_stream
    from tracecloak.pipelines.stream.epoch import paid_epoch
    from tracecloak.pipelines.stream.local_run import run_epoch

    given: dict[str, Any] = {
        "release_id": "ward", "epoch": "1", "input_subscription": "projects/p/subscriptions/s",
        "output": str(folder / "out"), "key_store": str(folder / "keys"), "new_ledger": True,
        "epsilon": "1", "vocabulary": ["A", "B", "C", "D"], "max_trace_length": 5, "period": "10s",
        "horizon": 1, "start": "1970-01-01", "gap": "2s", "max_lifetime": "5s",
        "max_disorder": "1s", "end_activity": ["D"], "release_delay": "10s",
        "timestamp_unit": "us", "shards": 2, "l2_clip": "5",
    }  # fmt: skip
    with paid_epoch(load_stream(None, given)) as epoch:
        run_epoch(epoch, lambda *_: _Service(), "list", [], threading.Event(), lambda: 1e9)
    assert epoch.is_spent


RUNS: Mapping[str, Callable[[Path], None]] = {
    "private-dfg": lambda folder: release("private-dfg", folder),
    "private-log": lambda folder: release("private-log", folder),
    "window": window,
    "stream": step,
}


class _Message(NamedTuple):
    data: bytes
    attributes: Mapping[str, str] = {}


class _Service:
    """A service with the messages of two cases, and then the end of time."""

    positions: Mapping[str, Any] = {}
    clock_offset_us = None

    def __init__(self) -> None:
        self._is_read = False

    def pull(self, max_messages: int, timeout_seconds: float) -> Any:
        from tracecloak.transforms.stream.sources import Pulled

        if self._is_read:
            return Pulled()
        self._is_read = True
        sent = [("c1", "A", 1), ("c2", "A", 1), ("c1", "B", 2), ("c1", "D", 3)]
        bodies = [
            {"case_id": case, "activity": name, "timestamp": second * _ONE_US, "event_id": str(i)}
            for i, (case, name, second) in enumerate(sent)
        ]
        messages = [_Message(json.dumps(body).encode()) for body in bodies]
        return Pulled(messages, [second * _ONE_US for _, _, second in sent], 0)

    def let_go(self, pulled: Any) -> None:
        pass

    def watermark_us(self) -> int:
        return (1 << 60) if self._is_read else -(1 << 63)

    def close(self) -> None:
        pass


def _log(path: Path) -> None:
    """Writes a log of 1,000 cases in January 2026, of four activities in eight variants."""
    variants = ["ABCD", "ABD", "ACBD", "ABBCD", "AD", "ACD", "ABCCD", "ACBBD"]
    rows = [
        f"c{case},{name},2026-01-{1 + case % 20:02d}T{8 + i:02d}:{case % 60:02d}:00Z"
        for case in range(1000)
        for i, name in enumerate(variants[case % 3 if case % 2 else case % 8])
    ]
    path.write_text("\n".join(["case_id,activity,timestamp", *rows]) + "\n")


def _command(*arguments: str) -> None:
    from tracecloak.pipelines.commands.main import main

    assert main(list(arguments)) == 0


def _counted(run: Callable[[], None]) -> Reach:
    """Runs it and returns what it has of the product; counts in its threads, too."""
    entered: set[tuple[str, str]] = set()

    def note(frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        # Bodies of classes and modules keep their names in no array of fast locals.
        if event == "call" and code.co_flags & inspect.CO_OPTIMIZED and code.co_name[0] != "<":
            entered.add((code.co_filename, code.co_qualname))

    threading.setprofile(note)
    sys.setprofile(note)
    try:
        run()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)  # type: ignore[arg-type]
    lines = {}
    functions = Counter(name for name, _ in entered)
    of_file = {}
    for name, module in sys.modules.items():
        if name == "tracecloak._folders":  # only where git made no links
            continue
        if name.split(".")[0] == "tracecloak" and (file := getattr(module, "__file__", None)):
            path = Path(file).resolve().relative_to(ROOT).as_posix()
            lines[path] = len(Path(file).read_text().splitlines())
            of_file[path] = functions[file]
    return Reach(lines, of_file)


if __name__ == "__main__":
    import os

    _, _run, _folder = sys.argv
    os.environ["TRACECLOAK_KEY_STORE"] = str(Path(_folder) / "keys")
    sys.stdout.write(json.dumps(_counted(lambda: RUNS[_run](Path(_folder)))))
