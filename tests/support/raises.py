"""Which `raise` statements of the product the tests reach, in all of their processes.

    python -m tests.support.raises begin   # empties build/raises and prepares the environment
    TRACECLOAK_RAISES=build/raises pytest ...
    python -m tests.support.raises   # fails if one is neither reached nor in tests/raises.toml
    python -m tests.support.raises messages   # writes tests/messages.txt

While `TRACECLOAK_RAISES` names a folder, every process of the environment rewrites the modules
that it imports, so that each `raise` first notes its key in a file of the folder. coverage.py runs
in subprocesses, too, but it writes at their end, which a killed process does not have; and with
Python 3.11 the tests of `schemas/models` took half as long again with it, and no longer with this.

A key is the file, the function and the beginning of the statement, so that edits elsewhere do not
change it. The file is run before anything else is imported: it imports nothing of tests or product.
"""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from types import CodeType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import ast

VARIABLE = "TRACECLOAK_RAISES"
ROOT = Path(__file__).resolve().parents[2]
LAYERS = ("schemas", "anonymizers", "transforms", "pipelines", "examination")
EXCUSES = ROOT / "tests" / "raises.toml"
MESSAGES = ROOT / "tests" / "messages.txt"
_MAX_TEXT = 60


def raises_of(tree: ast.Module, path: str) -> Iterator[tuple[str, ast.Raise]]:
    """Yields the key of every `raise` of a module with its statement, in their order."""
    import ast

    n_equal: dict[str, int] = {}

    def below(node: ast.AST, function: str) -> Iterator[tuple[str, ast.Raise]]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.Raise):
                key = f"{path} {function}: {_text(child)}"
                n_equal[key] = n_equal.get(key, 0) + 1
                yield key + (f" ({n_equal[key]})" if n_equal[key] > 1 else ""), child
            elif isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                yield from below(child, f"{function}.{child.name}".lstrip("."))
            else:
                yield from below(child, function)

    yield from below(tree, "")


def _text(statement: ast.Raise, max_text: int = _MAX_TEXT) -> str:
    """The exception and the beginning of its message, without what is put into it."""
    import ast

    raised = statement.exc
    if not isinstance(raised, ast.Call):
        return "raise" if raised is None else ast.unparse(raised)
    pieces: list[ast.expr] = raised.args[:1]
    if pieces and isinstance(pieces[0], ast.JoinedStr):
        pieces = pieces[0].values
    words = (str(p.value) if isinstance(p, ast.Constant) else "{}" for p in pieces)
    return f"{ast.unparse(raised.func)} {''.join(words)[:max_text]}".strip()


@functools.cache
def all_raises() -> dict[str, int]:
    """The keys of all `raise` statements of the product, with their lines."""
    import ast

    return {
        key: statement.lineno
        for layer in LAYERS
        for file in sorted((ROOT / layer).rglob("*.py"))
        for key, statement in raises_of(ast.parse(file.read_bytes()), str(file.relative_to(ROOT)))
    }


def messages() -> str:
    """Returns the exceptions of all `raise` statements with their messages, a line each."""
    import ast

    texts = {
        _text(statement, sys.maxsize).replace("\n", "\\n")
        for layer in LAYERS
        for file in (ROOT / layer).rglob("*.py")
        for _, statement in raises_of(ast.parse(file.read_bytes()), "")
    }
    return "".join(f"{text}\n" for text in sorted(texts) if " " in text)


def noting(source: bytes, file: str, path: str) -> CodeType:
    """Compiles a module so that each `raise` first notes its key."""
    import ast

    tree = ast.parse(source, file)
    keys = {statement: key for key, statement in raises_of(tree, path)}

    class MeasureRecorder(ast.NodeTransformer):
        def visit_Raise(self, node: ast.Raise) -> list[ast.stmt]:
            called = ast.Name("__reached__", ast.Load())
            note = ast.Expr(ast.Call(called, [ast.Constant(keys[node])], []))
            return [ast.fix_missing_locations(ast.copy_location(note, node)), node]

    return compile(MeasureRecorder().visit(tree), file, "exec", dont_inherit=True)


def hook(folder: Path) -> None:
    """Rewrites what this process imports of the product, and notes what it raises in the folder."""
    import builtins
    import marshal
    from importlib.machinery import SourceFileLoader

    os.makedirs(folder / "code", exist_ok=True)
    seen: set[str] = set()
    plain = SourceFileLoader.get_code
    layers = tuple(f"{layer}/" for layer in LAYERS)

    def reached(key: str) -> None:
        if key not in seen:
            seen.add(key)
            try:
                with open(folder / "reached.txt", "ab", buffering=0) as stream:
                    stream.write(key.encode() + b"\n")
            except OSError:  # such as a limit on files that the test sets
                seen.discard(key)

    def get_code(self: SourceFileLoader, name: str) -> Any:
        file = self.get_filename(name)
        path = file.removeprefix(f"{ROOT}/").removeprefix("tracecloak/")
        if not path.startswith(layers):
            return plain(self, name)
        status = os.stat(file)
        cached = folder / "code" / f"{name}.{status.st_mtime_ns}.{status.st_size}"
        try:
            return marshal.loads(cached.read_bytes())
        except (OSError, ValueError, EOFError):
            code = noting(self.get_data(file), file, path)
            part = cached.with_suffix(f".{os.getpid()}")
            try:
                part.write_bytes(marshal.dumps(code))
                part.replace(cached)
            except OSError:
                pass
            return code

    builtins.__reached__ = reached  # type: ignore[attr-defined]
    SourceFileLoader.get_code = get_code  # type: ignore[method-assign]


def begin(folder: Path) -> None:
    """Empties the folder, and lets every process of this environment load the hook."""
    import shutil
    import sysconfig

    shutil.rmtree(folder, ignore_errors=True)
    line = (
        f"import os; {VARIABLE!r} in os.environ and "
        f"exec(open({__file__!r}).read(), {{'__name__': 'raises', '__file__': {__file__!r}}})\n"
    )
    (Path(sysconfig.get_path("purelib")) / "tracecloak_raises.pth").write_text(line)


def excuses() -> dict[str, str]:
    """Returns the reason of every `raise` that no test needs to reach, by its key."""
    import tomllib

    listed = tomllib.loads(EXCUSES.read_text())
    return {key: reason for reason, keys in listed.items() for key in keys}


def check(folder: Path, below: str = "") -> int:
    """Prints what is not reached and not excused, or excused and reached; returns the exit code.

    Args:
        folder: Where the processes noted it.
        below: The beginning of the paths that are looked at; empty: all.
    """
    everything = {key: line for key, line in all_raises().items() if key.startswith(below)}
    reached = set((folder / "reached.txt").read_text().splitlines())
    excused = excuses()
    missing = [key for key in everything if key not in reached and key not in excused]
    needless = [key for key in excused if key in reached]
    for key in missing:
        sys.stdout.write(f"not reached, line {everything[key]}: {key}\n")
    for key in needless:
        sys.stdout.write(f"reached, although tests/raises.toml has it: {key}\n")
    sys.stdout.write(
        f"{len(everything)} raise statements, {len(missing)} not reached, {len(excused)} excused\n"
    )
    return 1 if missing or needless else 0


if __name__ == "__main__":
    _folder = Path(os.environ.get(VARIABLE, ROOT / "build" / "raises")).absolute()
    if sys.argv[1:] == ["begin"]:
        begin(_folder)
    elif sys.argv[1:] == ["messages"]:
        MESSAGES.write_text(messages())
    else:
        sys.exit(check(_folder, *sys.argv[1:]))
elif __name__ == "raises" and os.environ[VARIABLE]:
    hook(Path(os.environ[VARIABLE]))
