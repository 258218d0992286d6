"""How many lines of code a source has; and what one run loads and enters of it, by package.

    python -m tests.support.reach private-dfg FOLDER

runs a release, a window or one step of a stream in this process and prints its counts. Nothing
counts but what the run imports, so this module imports nothing of the product before it counts.
"""

from __future__ import annotations

import ast
import inspect
import io
import json
import os
import sys
import threading
import tokenize
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[2]
LAYERS = ("schemas", "anonymizers", "transforms", "pipelines", "examination")
_NO_CODE = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT)
_ONE_US = 1_000_000


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
        from tracecloak.transforms.stream.sources import MessageBatch

        if self._is_read:
            return MessageBatch()
        self._is_read = True
        sent = [("c1", "A", 1), ("c2", "A", 1), ("c1", "B", 2), ("c1", "D", 3)]
        bodies = [
            {"case_id": case, "activity": name, "timestamp": second * _ONE_US, "event_id": str(i)}
            for i, (case, name, second) in enumerate(sent)
        ]
        messages = [_Message(json.dumps(body).encode()) for body in bodies]
        return MessageBatch(messages, [second * _ONE_US for _, _, second in sent], 0)

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


def reach_of(run: Callable[[], None]) -> dict[str, tuple[int, int]]:
    """Returns what a run has of each module that it loads, also in its threads.

    That is its raw lines, and the functions that the run and the module's import enter;
    comprehensions, lambdas and bodies of classes are no functions here.
    """
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
    functions = Counter(name for name, _ in entered)
    found = {}
    for name, module in sys.modules.items():
        if name.split(".")[0] == "tracecloak" and (file := getattr(module, "__file__", None)):
            path = Path(file).resolve().relative_to(ROOT).as_posix()
            found[path] = len(Path(file).read_text().splitlines()), functions[file]
    return found


def main() -> None:
    """Prints a run's lines and functions by package, and its totals."""
    _, run, folder = sys.argv
    os.environ["TRACECLOAK_KEY_STORE"] = str(Path(folder) / "keys")
    found = reach_of(lambda: RUNS[run](Path(folder)))
    packages: dict[str, tuple[int, int]] = {}
    for path, (n_lines, n_entered) in found.items():
        package = path.removesuffix(".py").split("/")[:2]
        before = packages.get(key := "/".join(package), (0, 0))
        packages[key] = before[0] + n_lines, before[1] + n_entered
    for package, (n_lines, n_entered) in sorted(packages.items(), key=lambda row: -row[1][0]):
        print(f"{package:28}{n_lines:7,}{n_entered:6,}")
    n_files = sum(n > 0 for _, n in found.values())
    lines, functions = (sum(column) for column in zip(*found.values(), strict=True))
    print(f"{lines:,} lines loaded; {functions:,} functions entered, of {n_files:,} files")


if __name__ == "__main__":
    main()
