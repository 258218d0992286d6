"""Releases as another processor, or a build whose modules lie elsewhere, would make them.

`python -m tests.golden.elsewhere way... -- release...` prints their digests as JSON. The ways:

* `numbers`: numpy's functions that depend on the processor, and those of Python's `math`, are moved
  by one in the last place of about every second result. What numpy, the C library and the linear
  algebra choose by the processor is chosen by the environment, see `other_code`.
* `modules`: every module of values and methods is renamed when it is imported, so that all classes
  in it say that they are from elsewhere; and all methods have one parameter more, at its default.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import json
import math
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]
_FUNCTIONS = (
    *("exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "power", "float_power"),
    *("geomspace", "logspace", "sin", "cos", "tanh", "sinh", "arcsinh", "hypot", "cbrt"),
    *("dot", "inner", "vdot", "matmul", "tensordot", "einsum", "convolve", "correlate"),
)
_OF_MATH = ("exp", "expm1", "log", "log1p", "log2", "log10", "pow", "erf", "erfc", "tanh", "hypot")
_RENAMED = ("tracecloak.schemas.", "tracecloak.anonymizers.")
_PARAMS = "tracecloak.anonymizers.contract.method"
_NEUTRAL = "min_count"


def other_code() -> dict[str, str]:
    """The environment of a process that uses nothing of this processor beyond the oldest."""
    try:
        from numpy._core import _multiarray_umath as core
    except ImportError:  # numpy 1
        from numpy.core import _multiarray_umath as core
    features = [name for name in core.__cpu_dispatch__ if core.__cpu_features__[name]]
    return {
        "NPY_DISABLE_CPU_FEATURES": " ".join(features),
        "GLIBC_TUNABLES": "glibc.cpu.hwcaps=-AVX512F,-AVX2,-AVX,-FMA,-FMA4",
        "OPENBLAS_CORETYPE": "Prescott",
        "OPENBLAS_NUM_THREADS": "1",
    }


def digests_elsewhere(
    names: Sequence[str], ways: Sequence[str], environment: dict[str, str]
) -> dict[str, Any]:
    """The digests of some releases of a process of its own, by release and path."""
    done = subprocess.run(
        [sys.executable, "-m", __name__, *ways, "--", *names],
        cwd=ROOT, env={**os.environ, **environment}, capture_output=True, text=True, timeout=3600,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    return dict(json.loads(done.stdout.splitlines()[-1]))


def expected_of(names: Sequence[str]) -> dict[str, Any]:
    """The recorded digests, or those of this process under other versions of libraries."""
    from tests.golden.releases import recorded, versions

    known = recorded()
    if versions() != known["versions"]:
        return digests_here(names)
    return {name: known["digests"][name] for name in names}


def digests_here(names: Sequence[str]) -> dict[str, Any]:
    """The digests of some releases of this process, by release and path."""
    from tests.golden.releases import as_json, scenarios
    from tests.support.releasing import fix_key
    from tracecloak.pipelines.ledger import caps

    found, made = {}, scenarios()
    for name in names:
        with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
            fix_key(patch)
            patch.setattr(caps, "first_account", lambda past, reservation: None)
            found[name] = as_json(made[name](Path(folder)))
    return found


def move(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function with results moved up by one in the last place where a bit of them is 1."""

    def moved(*args: Any, **kwargs: Any) -> Any:
        found = function(*args, **kwargs)
        if not isinstance(found, float) and getattr(found, "dtype", None) != np.float64:
            return found
        bits = np.array(found, np.float64, order="C").view(np.int64)
        is_chosen = (bits >> 3 & 1).astype(bool) & np.isfinite(found)
        result = np.where(is_chosen, np.nextafter(found, np.inf), found)[()]
        return float(result) if type(found) is float else result

    return moved


class _Renaming(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds modules where they are, and has them run under another name."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if not name.startswith(_RENAMED):
            return None
        others = (finder for finder in sys.meta_path if finder is not self)
        found = next(filter(None, (finder.find_spec(name, path, target) for finder in others)))
        if found.submodule_search_locations is None:  # a package has to know where it is
            found.loader_state, found.loader = found.loader, self
        return found

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> None:
        return None

    def exec_module(self, module: Any) -> None:
        name, inner = module.__name__, module.__spec__.loader_state
        module.__name__ = f"elsewhere.{name}"
        sys.modules[module.__name__] = module  # where what it defines is looked for
        exec(inner.get_code(name), module.__dict__)
        module.__name__ = name
        if name == _PARAMS:
            import pydantic

            more: dict[str, Any] = {_NEUTRAL: (int, 0)}
            for own in ("Params", "NamesParams"):
                model = pydantic.create_model(own, __base__=getattr(module, own), **more)
                setattr(module, own, model)


def _rename_modules() -> None:
    sys.meta_path.insert(0, _Renaming())
    sys.modules["elsewhere"] = ModuleType("elsewhere")  # pickles import it
    from tracecloak.anonymizers.registry import METHODS

    for method in METHODS.values():
        assert method.__module__.startswith("elsewhere.")
        assert _NEUTRAL in method.Params.model_fields


def _move_numbers() -> None:
    for module, functions in ((np, _FUNCTIONS), (math, _OF_MATH)):
        for name in functions:  # before anything of ours is loaded
            setattr(module, name, move(getattr(module, name)))


WAYS = {"numbers": _move_numbers, "modules": _rename_modules}


if __name__ == "__main__":
    end = sys.argv.index("--")
    for way in sys.argv[1:end]:
        WAYS[way]()
    sys.stdout.write(json.dumps(digests_here(sys.argv[end + 1 :])) + "\n")
