"""The layout: how large the code is, which way imports run, and no randomness without a key.

Imports are checked by import-linter (contracts in pyproject.toml), banned names by ruff. Each
further rule is a function from source text to its violations, tested on a text that violates it.
"""

from __future__ import annotations

import ast
import functools
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from deploy.package_table import PAGE, page_with_table
from tests.support.reach import LAYERS, ROOT, n_statements

# Lines of code without docstrings, comments and blank lines, of all five layers. It only falls: a
# change that needs more removes as much first, or is a plug-in.
MAX_CODE_LINES = 59_500
# So far below the limit the code may be before the limit follows it.
SLACK = 400
SOURCES = sorted(path for layer in LAYERS for path in (ROOT / layer).rglob("*.py"))

Rule = Callable[[str, str], list[str]]


def test_the_code_stays_within_its_limit() -> None:
    found = {str(path): n_statements(path.read_text()) for path in SOURCES}
    total = sum(found.values())
    assert total <= MAX_CODE_LINES, f"{total:,} lines: remove as much as the change adds"
    assert total > MAX_CODE_LINES - SLACK, f"{total:,} lines: lower MAX_CODE_LINES to them"


def test_every_package_has_a_docstring_and_imports_nothing() -> None:
    """What a package has is imported from its modules; a second way to a name had to be kept."""
    for folder in {path.parent for path in SOURCES}:
        package = ast.parse((folder / "__init__.py").read_text())
        assert ast.get_docstring(package), folder
        assert all(isinstance(node, ast.Expr | ast.Assign) for node in package.body), folder


def test_the_table_of_packages_is_that_of_their_docstrings() -> None:
    assert page_with_table(PAGE.read_text()) == PAGE.read_text(), "make schema writes the table"


def lint_imports(root: Path) -> list[str]:
    """Returns the names of the contracts of pyproject.toml that the sources there break."""
    done = subprocess.run(
        [sys.executable, "-c", "from importlinter.cli import lint_imports_command as f; f()",
         "--no-cache", "--no-logo"],
        cwd=root, env={"PYTHONPATH": str(root), "PATH": ""}, capture_output=True, text=True,
        timeout=120,
    )  # fmt: skip
    assert "Contracts: " in done.stdout, done.stdout + done.stderr
    return [line for line in done.stdout.splitlines() if line.endswith(" BROKEN")]


def test_imports_keep_their_contracts_and_a_planted_violation_of_each_is_found(
    tmp_path: Path,
) -> None:
    for name in (*LAYERS, "tracecloak"):
        shutil.copytree(ROOT / name, tmp_path / name, symlinks=True)
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    assert lint_imports(tmp_path) == []
    for module, line in {
        "schemas/arrays/sequences.py": "def f():\n    import tracecloak.transforms.files",
        "anonymizers/noise/sums.py": "import apache_beam",
        "schemas/arrays/merging.py": "from tracecloak.schemas.statistics import variants",
    }.items():
        with (tmp_path / module).open("a") as file:
            file.write(f"\n{line}\n")
    assert len(lint_imports(tmp_path)) == 3


def test_ruff_bans_other_randomness_other_samplers_and_a_second_name_of_a_module() -> None:
    source = (
        "import random\nimport schemas\nimport pm4py\nfrom numpy import random\n"
        "from tracecloak.anonymizers.noise.samplers import discrete_laplace\n"
    )
    done = subprocess.run(
        [sys.executable, "-m", "ruff", "check", "--select", "TID251", "--output-format", "concise",
         "--stdin-filename", "anonymizers/graphs/planted.py"],
        cwd=ROOT, input=source, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert done.stdout.count("TID251") == 5, done.stdout


@functools.cache
def nodes(source: str) -> tuple[ast.AST, ...]:
    """Returns all that a source is made of; it is parsed once for all rules."""
    return tuple(ast.walk(ast.parse(source)))


def imported(source: str) -> list[str]:
    """Returns the full names of what a source imports anywhere."""
    found: list[str] = []
    for node in nodes(source):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            found += [f"{node.module}.{alias.name}" for alias in node.names]
    return found


def takes_no_seed(path: str, source: str) -> list[str]:
    """Nobody can set one; gensim's own generator starts from the release's key."""
    found = [
        str(getattr(node, field))
        for node in nodes(source)
        for field in ("arg", "id", "value")
        if isinstance(getattr(node, field, None), str) and path != "anonymizers/pretsa/method.py"
    ]
    return [n for n in found if " " not in n and "seed" in re.split(r"\W|_", n.lower())]


# What numpy and scipy compute by other code on another processor: by its vectors, by BLAS, by the
# mathematics of the C library. Sums, quantiles, interpolation, transforms, and products of scipy's
# sparse matrices have one code; `schemas.arrays.elementary` says why.
OF_THE_PROCESSOR = {
    *("exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "logaddexp", "power", "float_power"),
    *("pow", "cbrt", "hypot", "geomspace", "logspace", "sin", "cos", "tan", "sinh", "cosh", "tanh"),
    *("arcsin", "arccos", "arctan", "arctan2", "arcsinh", "arccosh", "arctanh", "linalg", "dot"),
    *("asin", "acos", "atan", "atan2", "asinh", "acosh", "atanh", "sinc", "logaddexp2", "random"),
    *("vdot", "vecdot", "matvec", "vecmat", "inner", "outer", "matmul", "tensordot", "einsum"),
    *("convolve", "correlate", "corrcoef", "cov", "polyfit", "polynomial", "kron"),
}
# Without BLAS in them, or with whole numbers for results.
OF_SCIPY = {
    "scipy.sparse",
    "scipy.sparse.csr_array",
    "scipy.sparse.csgraph.breadth_first_order",
    "scipy.sparse.csgraph.connected_components",
    "scipy.sparse.csgraph.maximum_flow",
}
# Files that use some of it all the same: what, and why nothing that is released is another.
OTHERWISE_ON_ANOTHER = {
    "anonymizers/graphs/noisy_graph.py": (
        {"scipy.special.log_ndtr"},
        "limits are rounded outwards to whole numbers",
    ),
    "anonymizers/noise/samplers.py": ({"np.exp"}, "within a guard, and else decided exactly"),
    "anonymizers/pretsa/method.py": (
        {"np.linalg", "np.einsum"},
        "gensim's vectors are the processor's before: the one exception",
    ),
    "anonymizers/queries/order_rules.py": ({"@"}, "whole numbers, which are exact"),
    "anonymizers/streams/matrix_mechanism.py": ({"@"}, "of integers, which numpy does itself"),
    "anonymizers/variants/reweight.py": ({"@"}, "a sparse matrix"),
    "transforms/models/graph_layout.py": ({"scipy.optimize.linprog"}, "HiGHS does without BLAS"),
}


def by_the_processor(source: str) -> list[tuple[str, str]]:
    """What a file uses that another processor computes otherwise, and where."""
    found = []
    for node in nodes(source):
        if isinstance(node, ast.Attribute) and ast.unparse(node.value) in ("np", "numpy"):
            if node.attr in OF_THE_PROCESSOR:
                found.append((f"np.{node.attr}", f"line {node.lineno}"))
        elif isinstance(node, ast.Attribute) and node.attr in ("dot", "geomspace"):
            found.append((f".{node.attr}", f"line {node.lineno}"))
        elif isinstance(node, ast.BinOp | ast.AugAssign) and isinstance(node.op, ast.MatMult):
            found.append(("@", f"line {node.lineno}"))
        elif isinstance(node, ast.BinOp | ast.AugAssign) and isinstance(node.op, ast.Pow):
            # Of arrays, or with a part of a number in the exponent; squares and 2.0**-52 are exact.
            power = node.right if isinstance(node, ast.BinOp) else node.value
            has_part = any(
                isinstance(n, ast.Constant) and isinstance(n.value, float) for n in ast.walk(power)
            )
            if has_part or ("np." in ast.unparse(node) and ast.unparse(power) != "2"):
                found.append(("**", f"line {node.lineno}"))
    for name in imported(source):
        if name.split(".")[0] == "scipy" and name not in OF_SCIPY:
            found.append((name, "import"))
        if name.startswith("numpy.") and name.split(".")[1] not in ("typing", "lib"):
            found.append((name, "import"))
    return found


def computes_the_same_on_every_processor(path: str, source: str) -> list[str]:
    """`schemas.arrays.elementary` has the same bits everywhere; a release must have them, too."""
    if not path.startswith(("schemas/", "anonymizers/", "transforms/")):
        return []
    usual, _ = OTHERWISE_ON_ANOTHER.get(path, (set(), ""))
    return [f"{place}: {what}" for what, place in by_the_processor(source) if what not in usual]


# A rule, and (path, source) pairs that break it.
RULES: dict[Rule, list[tuple[str, str]]] = {
    computes_the_same_on_every_processor: [
        ("schemas/a.py", "import numpy as np\nx = np.log(2)"),
        ("anonymizers/a.py", "f(np.linalg.norm)"),
        ("anonymizers/a.py", "from numpy import exp"),
        ("anonymizers/a.py", "a @ b"),
        ("anonymizers/a.py", "1.1 ** np.arange(3)"),
        ("transforms/a.py", "variance ** 0.5"),
        ("anonymizers/a.py", "from scipy.sparse.linalg import splu"),
        ("anonymizers/a.py", "a.dot(b)"),
    ],
    takes_no_seed: [
        ("anonymizers/a.py", "def f(x, *, seed=None): ..."),
        ("anonymizers/a.py", "class Params:\n    random_seed: int = 3"),
        ("pipelines/a.py", "parser.add_argument('--seed')"),
        ("anonymizers/a.py", "f(Word2Vec(x), seed=1)"),
    ],
}


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_every_source_keeps_the_rule_and_a_violation_is_found(rule: Rule) -> None:
    broken = {
        name: found
        for path in SOURCES
        if (found := rule(name := path.relative_to(ROOT).as_posix(), path.read_text()))
    }
    assert broken == {}
    assert [example for example in RULES[rule] if not rule(*example)] == []


def test_every_exception_of_the_processor_is_needed() -> None:
    used = {
        path: {what for what, _ in by_the_processor((ROOT / path).read_text())}
        for path in OTHERWISE_ON_ANOTHER
    }
    assert used == {path: usual for path, (usual, _) in OTHERWISE_ON_ANOTHER.items()}
