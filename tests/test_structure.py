"""What the layout promises: imports run one way, and no randomness but the keyed one.

Each rule is a function from source text to its violations, and is shown a text that breaks it.
"""

from __future__ import annotations

import ast
import functools
import re
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from tracecloak.pipelines.commands.table import COMMANDS

ROOT = Path(__file__).parents[1]
# Each may import those before it.
PACKAGES = ("schemas", "anonymizers", "transforms", "pipelines", "examination")
# Names the commands of what stands above it, so that one program has them all; knows nothing else
# of them, and imports none that is not asked for.
TABLE_OF_COMMANDS = "pipelines/commands/table.py"
SOURCES = sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))
WITHOUT_BEAM = ("schemas/", "anonymizers/", "transforms/formats/", "transforms/models/")
PM4PY_ADAPTER = "examination/measure/mining.py"

Rule = Callable[[str, str], list[str]]


@functools.cache
def nodes(source: str) -> tuple[ast.AST, ...]:
    """Returns all that a source is made of; it is parsed once for all rules."""
    return tuple(ast.walk(ast.parse(source)))


@functools.cache
def imported(source: str) -> tuple[str, ...]:
    """Returns the modules that a source imports or has loaded anywhere, by their full names."""
    return (*statements_import(source), *tables_name(source))


def tables_name(source: str) -> Iterator[str]:
    """Yields the modules that a source names in texts, such as tables whose entries are loaded."""
    for node in nodes(source):
        if isinstance(node, ast.Constant) and _PLACE.fullmatch(str(node.value)):
            yield str(node.value).partition(":")[0]


@functools.cache
def statements_import(source: str) -> tuple[str, ...]:
    """Returns what a source imports, also in a function or for types alone."""
    return tuple(_imports(source))


def _imports(source: str) -> Iterator[str]:
    for node in nodes(source):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            # A relative import stays within its package, which none of the rules forbids.
            if node.level == 0 and node.module is not None:
                yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Call) and _called(node) in ("__import__", "import_module"):
            yield from (arg.value for arg in node.args[:1] if isinstance(arg, ast.Constant))


_PLACE = re.compile(r"tracecloak(\.\w+)+(:\w+)?")


def _called(node: ast.Call) -> str:
    function = node.func
    if isinstance(function, ast.Attribute):
        return function.attr
    return function.id if isinstance(function, ast.Name) else ""


def reached(path: str, source: str) -> tuple[str, ...]:
    """The modules that a file may have loaded: all but those of commands, in the table of these."""
    return statements_import(source) if path == TABLE_OF_COMMANDS else imported(source)


def imports_no_package_above(path: str, source: str) -> list[str]:
    above = PACKAGES[PACKAGES.index(path.split("/")[0]) + 1 :]
    return [
        name
        for name in reached(path, source)
        if name.split(".")[0] == "tests" or name.startswith(tuple(f"tracecloak.{a}" for a in above))
    ]


def imports_no_beam(path: str, source: str) -> list[str]:
    if not path.startswith(
        ("schemas/", "anonymizers/", "transforms/formats/", "transforms/models/")
    ):
        return []
    return [name for name in imported(source) if name.split(".")[0] == "apache_beam"]


def imports_pm4py_in_its_adapter_only(path: str, source: str) -> list[str]:
    if path == PM4PY_ADAPTER:
        return []
    return [name for name in imported(source) if name.split(".")[0] == "pm4py"]


def uses_no_unkeyed_randomness(path: str, source: str) -> list[str]:
    """`secrets` and `os.urandom` are the operating system's, for keys; all else has a seed."""
    found = [
        name
        for name in imported(source)
        if name.split(".")[0] == "random" or name.startswith("numpy.random")
    ]
    for node in nodes(source):
        if (
            isinstance(node, ast.Attribute)
            and node.attr == "random"
            and isinstance(node.value, ast.Name)
            and node.value.id in ("np", "numpy")
        ):
            found.append(f"line {node.lineno}: {node.value.id}.random")
    return found


def takes_no_seed(path: str, source: str) -> list[str]:
    """Nobody can set one; gensim's own generator starts from the release's key."""
    found = []
    of_gensim = {
        keyword
        for node in nodes(source)
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "Word2Vec"
        for keyword in node.keywords
    }
    for node in nodes(source):
        if node in of_gensim:
            continue
        if isinstance(node, ast.arg):
            names = [node.arg]
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            names = [node.target.id]
        elif isinstance(node, ast.keyword):
            names = [node.arg or ""]
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            names = [node.value.lstrip("-")] if node.value.startswith("--") else []
        else:
            names = []
        found += [
            f"line {node.lineno}: {name}"
            for name in names
            if "seed" in name.lower().replace("-", "_").split("_")
        ]
    return found


def room_of(path: str) -> str:
    """The room of a file: its folder, or the file itself where it lies on a floor."""
    parts = path.removesuffix(".py").split("/")
    return "/".join(parts[:2])


def looked_into(path: str, source: str) -> set[str]:
    """The other rooms that a source imports from anywhere in it."""
    rooms = set()
    for name in reached(path, source):
        top, _, rest = name.partition(".")
        if top == "tracecloak" and rest.split(".")[0] in PACKAGES and "." in rest:
            rooms.add("/".join(rest.split(".")[:2]))
    return rooms - {room_of(path)}


def modules_of_others(path: str, source: str) -> set[str]:
    """The modules of other rooms that a source imports from, as `floor/room/file`."""
    found = set()
    for name in reached(path, source):
        top, *parts = name.split(".")
        room = "/".join(parts[:2])
        if top == "tracecloak" and room in ROOMS and room != room_of(path) and len(parts) > 2:
            found.add("/".join(parts[:3]))
    return found


_TABLE = tomllib.loads((ROOT / "tests" / "doors.toml").read_text())
DOORS = {
    room: {f"{floor}/{name}" for floor in PACKAGES for name in doors.get(floor, ())}
    for room, doors in _TABLE.items()
}
OFFERS = {f"{room}/{name}" for room, doors in _TABLE.items() for name in doors.get("offers", ())}
ROOMS = {room for room in DOORS if (ROOT / room).is_dir()}


def goes_through_a_door(path: str, source: str) -> list[str]:
    """Every room that is looked into is in the room's line of doors.toml."""
    return sorted(looked_into(path, source) - DOORS.get(room_of(path), set()))


def imports_what_is_offered(path: str, source: str) -> list[str]:
    """Of another room only the files that its `offers` of doors.toml name."""
    return sorted(modules_of_others(path, source) - OFFERS)


def imports_by_the_installed_name(path: str, source: str) -> list[str]:
    """`import schemas` would load a module of the checkout a second time, as another one."""
    return [name for name in imported(source) if name.split(".")[0] in PACKAGES]


LAWS = {
    "discrete_laplace", "discrete_gaussian", "truncated_discrete_laplace", "permute_and_flip",
}  # fmt: skip


def draws_by_the_noise_of_its_randomness(path: str, source: str) -> list[str]:
    """Samplers are for `noise.drawing`: what bypasses it, no audit and no control sees."""
    if path.startswith("anonymizers/noise/"):
        return []
    return sorted(
        name.name
        for node in nodes(source)
        if isinstance(node, ast.ImportFrom)
        for name in node.names
        if name.name in LAWS
    )


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
    "anonymizers/graphs/count_intervals.py": (
        {"scipy.special.log_ndtr"},
        "limits are rounded outwards to whole numbers",
    ),
    "anonymizers/noise/keyed_stream.py": ({"np.exp"}, "within a guard, and else decided exactly"),
    "anonymizers/pretsa/activity_embedding.py": (
        {"np.linalg", "np.einsum"},
        "gensim's vectors are the processor's before: the one exception",
    ),
    "anonymizers/queries/order_rules.py": ({"@"}, "whole numbers, which are exact"),
    "anonymizers/streams/matrix_mechanism.py": ({"@"}, "of integers, which numpy does itself"),
    "anonymizers/trees/graph_cuts.py": (
        {"scipy.sparse.coo_array"},
        "which activities reach each other, in whole numbers",
    ),
    "anonymizers/variants/reweight.py": ({"@"}, "a sparse matrix"),
    "transforms/models/graph_layout.py": (
        {"scipy.optimize.linprog", "scipy.optimize.isotonic_regression"},
        "HiGHS does without BLAS, and means are sums",
    ),
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
    if path.startswith("examination/audit/"):  # what the operator sees, and nobody else
        return []
    usual, _ = OTHERWISE_ON_ANOTHER.get(path, (set(), ""))
    return [f"{place}: {what}" for what, place in by_the_processor(source) if what not in usual]


RULES: dict[Rule, list[tuple[str, str]]] = {
    # A rule, and (path, source) pairs that break it.
    imports_no_package_above: [
        ("schemas/a.py", "from tracecloak.anonymizers.contract.method import Params"),
        ("anonymizers/a.py", "def f():\n    import tracecloak.transforms.batch.read"),
        ("transforms/a.py", "from tracecloak.pipelines import commands"),
        ("pipelines/a.py", "from tests.support.keys import release_key"),
        ("pipelines/a.py", "COMMANDS = {'attack': 'tracecloak.examination.commands.attack'}"),
        (TABLE_OF_COMMANDS, "from tracecloak.examination.commands import attack"),
        (
            "schemas/a.py",
            "import importlib\nimportlib.import_module('tracecloak.pipelines.commands.main')",
        ),
    ],
    goes_through_a_door: [
        ("schemas/arrays/a.py", "from tracecloak.schemas.statistics.dafsa import Trie"),
        ("anonymizers/noise/a.py", "from tracecloak.anonymizers import accounting"),
        ("anonymizers/amun/a.py", "def f():\n    import tracecloak.anonymizers.pretsa.method"),
        ("pipelines/budget/a.py", "from tracecloak.pipelines.commands.main import main"),
        ("anonymizers/noise/a.py", "ours = {'amun': 'tracecloak.anonymizers.amun.method:Amun'}"),
    ],
    imports_what_is_offered: [
        ("anonymizers/a/b.py", "from tracecloak.schemas.published.parts_of_a_page import A"),
        ("pipelines/budget/a.py", "from tracecloak.anonymizers.noise import keyed_words"),
        ("anonymizers/registry.py", "A = {'amun': 'tracecloak.anonymizers.amun.words:Amun'}"),
        ("tracecloak/plugins.py", "from tracecloak.anonymizers.noise.keyed_words import Draws"),
    ],
    imports_by_the_installed_name: [
        ("schemas/arrays/a.py", "import schemas"),
        ("anonymizers/noise/a.py", "from anonymizers.noise.sums import SumNoise"),
    ],
    draws_by_the_noise_of_its_randomness: [
        (
            "anonymizers/a.py",
            "from tracecloak.anonymizers.noise.samplers import discrete_laplace",
        ),
        ("pipelines/a.py", "def f():\n    from x import permute_and_flip"),
    ],
    computes_the_same_on_every_processor: [
        ("schemas/a.py", "import numpy as np\nx = np.log(2)"),
        ("anonymizers/a.py", "f(np.linalg.norm)"),
        ("anonymizers/a.py", "from numpy import exp"),
        ("anonymizers/a.py", "a @ b"),
        ("anonymizers/a.py", "1.1 ** np.arange(3)"),
        ("transforms/a.py", "variance ** 0.5"),
        ("anonymizers/a.py", "from scipy.optimize import minimize"),
        ("anonymizers/a.py", "from scipy.sparse.linalg import splu"),
        ("anonymizers/a.py", "a.dot(b)"),
        ("anonymizers/graphs/count_intervals.py", "np.exp(x)"),
    ],
    imports_no_beam: [
        ("schemas/a.py", "import apache_beam as beam"),
        ("anonymizers/a.py", "from apache_beam.io import filesystems"),
        ("transforms/formats/a.py", "if True:\n    import apache_beam"),
    ],
    imports_pm4py_in_its_adapter_only: [
        ("examination/measure/evaluate.py", "def f():\n    import pm4py"),
        ("schemas/a.py", "from pm4py.objects.log import obj"),
    ],
    uses_no_unkeyed_randomness: [
        ("schemas/a.py", "import random"),
        ("anonymizers/a.py", "from random import choice"),
        ("anonymizers/a.py", "from numpy import random"),
        ("anonymizers/a.py", "from numpy.random import default_rng"),
        ("transforms/a.py", "import numpy as np\nx = np.random.default_rng(1)"),
    ],
    takes_no_seed: [
        ("anonymizers/a.py", "def f(x, *, seed=None): ..."),
        ("anonymizers/a.py", "class Params:\n    random_seed: int = 3"),
        ("pipelines/a.py", "parser.add_argument('--seed')"),
        ("pipelines/a.py", "f(x, seed=1)"),
        ("anonymizers/a.py", "f(Word2Vec(x), seed=1)"),
    ],
}


def test_the_rules_look_at_every_package() -> None:
    looked_at = {path.relative_to(ROOT).parts[0] for path in SOURCES}
    assert looked_at == set(PACKAGES)
    assert len(SOURCES) > 50


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_every_source_keeps_the_rule(rule: Rule) -> None:
    broken = {
        str(name): found
        for path in SOURCES
        if (found := rule(str(name := path.relative_to(ROOT)), path.read_text()))
    }
    assert broken == {}


@pytest.mark.parametrize(
    ("rule", "path", "source"),
    [(rule, *example) for rule, examples in RULES.items() for example in examples],
    ids=lambda value: value.__name__ if callable(value) else str(value)[:40],
)
def test_a_source_that_breaks_the_rule_is_found(rule: Rule, path: str, source: str) -> None:
    assert rule(path, source)


def test_what_a_lower_package_imports_is_allowed() -> None:
    assert (
        imports_no_package_above(
            "pipelines/a.py", "from tracecloak.schemas.events.traces import TraceBatch"
        )
        == []
    )


def test_every_exception_of_the_processor_is_needed() -> None:
    used = {
        path: {what for what, _ in by_the_processor((ROOT / path).read_text())}
        for path in OTHERWISE_ON_ANOTHER
    }
    assert used == {path: usual for path, (usual, _) in OTHERWISE_ON_ANOTHER.items()}


def circles(doors: Mapping[str, set[str]]) -> list[str]:
    """The rooms that can be reached from themselves."""
    open_rooms = {room: set(others) for room, others in doors.items()}
    while ends := [r for r, others in open_rooms.items() if not others & open_rooms.keys()]:
        for room in ends:
            del open_rooms[room]
    return sorted(open_rooms)


def test_no_rooms_reach_each_other_in_a_circle() -> None:
    assert circles(DOORS) == []
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"b"}, "d": {"a"}}) == ["a", "b", "c", "d"]


def files_reached(sources: Mapping[str, str]) -> dict[str, set[str]]:
    """The other files of its own room that each file imports from.

    A table that names the places of its entries knows nothing of what these are.
    """
    module_of = {
        path: "tracecloak." + path.removesuffix(".py").replace("/", ".") for path in sources
    }
    return {
        path: {
            other
            for other, module in module_of.items()
            if other != path
            and room_of(other) == room_of(path)
            and any(f"{name}.".startswith(f"{module}.") for name in statements_import(source))
        }
        for path, source in sources.items()
    }


def test_no_files_of_a_room_reach_each_other_in_a_circle() -> None:
    """Whoever reads one of a circle has to read all of it; a type in common goes below both."""
    sources = {str(path.relative_to(ROOT)): path.read_text() for path in SOURCES}
    found = {room_of(path) for path in circles(files_reached(sources))}
    assert found == set()
    broken = files_reached({
        "schemas/a/b.py": "if TYPE_CHECKING:\n    from tracecloak.schemas.a.c import C",
        "schemas/a/c.py": "def f():\n    from tracecloak.schemas.a import b",
        "schemas/a/d.py": "from tracecloak.schemas.d.b import B",
        "schemas/a/e.py": "FORMS = {'f': 'tracecloak.schemas.a.f:F'}",
        "schemas/a/f.py": "from tracecloak.schemas.a.e import FORMS",
    })  # fmt: skip
    assert circles(broken) == ["schemas/a/b.py", "schemas/a/c.py"]


def test_every_door_of_the_table_is_used_and_every_room_is_in_it() -> None:
    used: dict[str, set[str]] = {}
    for path in SOURCES:
        name = str(path.relative_to(ROOT))
        if path.name != "__init__.py":
            used.setdefault(room_of(name), set()).update(looked_into(name, path.read_text()))
    assert used == DOORS


def test_every_file_that_a_room_offers_is_used_by_another_or_public() -> None:
    paths = [*SOURCES, *(ROOT / "tracecloak").glob("*.py*")]
    names = [(str(path.relative_to(ROOT)), path.read_text()) for path in paths]
    assert set().union(*(modules_of_others(name, text) for name, text in names)) == OFFERS
    assert all((ROOT / f"{name}.py").is_file() for name in OFFERS)


def test_a_room_has_at_most_eighteen_files_and_says_what_lives_there_and_nothing_else() -> None:
    """What a room has is imported from its files; a second way to a name had to be kept, too."""
    for folder in {path.parent for path in SOURCES}:
        names = [path for path in folder.iterdir() if not path.name.startswith("_")]
        if folder.name == "commands":  # a table of files that know nothing of each other
            names = [path for path in names if path.stem not in COMMANDS]
        assert len(names) <= 18, folder
        room = ast.parse((folder / "__init__.py").read_text())
        assert ast.get_docstring(room) and len(room.body) == 1, folder


_IMPORT_ALL = """
import importlib, pkgutil, sys
for package in sys.argv[1:]:
    parent = importlib.import_module(package)
    for module in pkgutil.walk_packages(parent.__path__, package + "."):
        importlib.import_module(module.name)
foreign = [name for name in ("apache_beam", "pm4py", "tests") if name in sys.modules]
sys.exit(f"imported: {foreign}" if foreign else 0)
"""


def _import_all(*packages: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", _IMPORT_ALL, *packages],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
    )


def test_the_privacy_core_and_the_formats_load_without_beam() -> None:
    done = _import_all(
        *("tracecloak." + path.rstrip("/").replace("/", ".") for path in WITHOUT_BEAM)
    )
    assert done.returncode == 0, done.stderr


def test_that_the_pipelines_load_beam_is_noticed() -> None:
    done = _import_all("tracecloak.pipelines")
    assert done.returncode == 1
    assert "apache_beam" in done.stderr
    assert "pm4py" not in done.stderr
