"""How many lines of code a source has; and what one run loads and enters of it, by package.

    python -m tests.support.reach private-dfg FOLDER

runs a release by a method in this process and prints its counts. Nothing counts but what the run
imports, so this module imports nothing of the product before it counts.
"""

from __future__ import annotations

import ast
import inspect
import io
import os
import sys
import threading
import tokenize
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import FrameType

ROOT = Path(__file__).parents[2]
LAYERS = ("schemas", "anonymizers", "transforms", "pipelines", "examination")
_NO_CODE = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT)


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


# --- What a release loads -------------------------------------------------------------------------


def release(method: str, folder: Path) -> None:
    """One release of a file of CSV by the command, in memory."""
    from tracecloak.pipelines.commands.main import main

    _log(folder / "log.csv")
    flags = [
        "--log", str(folder / "log.csv"), "--output", str(folder / "out"), "--method", method,
        "--epsilon", "1", "--vocabulary", '["A", "B", "C", "D"]', "--release_id", "r",
        "--new_ledger", "--runner", "InMemory",
    ]  # fmt: skip
    assert main(["release", *flags]) == 0


def _log(path: Path) -> None:
    """Writes a log of 1,000 cases in January 2026, of four activities in eight variants."""
    variants = ["ABCD", "ABD", "ACBD", "ABBCD", "AD", "ACD", "ABCCD", "ACBBD"]
    rows = [
        f"c{case},{name},2026-01-{1 + case % 20:02d}T{8 + i:02d}:{case % 60:02d}:00Z"
        for case in range(1000)
        for i, name in enumerate(variants[case % 3 if case % 2 else case % 8])
    ]
    path.write_text("\n".join(["case_id,activity,timestamp", *rows]) + "\n")


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
    _, method, folder = sys.argv
    os.environ["TRACECLOAK_KEY_STORE"] = str(Path(folder) / "keys")
    found = reach_of(lambda: release(method, Path(folder)))
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
