"""Releases as another processor would make them.

`python -m tests.golden.processors release...` prints their digests as JSON. What numpy, the C
library and the linear algebra choose by the processor is chosen by the environment instead (see
`other_code`); with the argument `--moved` first, numpy's functions that depend on it, and those of
Python's `math`, are moved by one in the last place of about every second result, which no such
choice on this machine may do.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]
MOVED = "--moved"
_FUNCTIONS = (
    *("exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "power", "float_power"),
    *("geomspace", "logspace", "sin", "cos", "tanh", "sinh", "arcsinh", "hypot", "cbrt"),
    *("dot", "inner", "vdot", "matmul", "tensordot", "einsum", "convolve", "correlate"),
)
_OF_MATH = ("exp", "expm1", "log", "log1p", "log2", "log10", "pow", "erf", "erfc", "tanh", "hypot")


def other_code() -> dict[str, str]:
    """The environment of a process that uses nothing of this processor beyond the oldest."""
    return {
        "NPY_DISABLE_CPU_FEATURES": " ".join(_numpy_features()),
        "GLIBC_TUNABLES": "glibc.cpu.hwcaps=-AVX512F,-AVX2,-AVX,-FMA,-FMA4",
        "OPENBLAS_CORETYPE": "Prescott",
        "OPENBLAS_NUM_THREADS": "1",
    }


def _numpy_features() -> list[str]:
    """What numpy would choose code by on this machine, under the names of its version."""
    try:
        from numpy._core import _multiarray_umath as core
    except ImportError:  # numpy 1
        from numpy.core import _multiarray_umath as core
    return [name for name in core.__cpu_dispatch__ if core.__cpu_features__[name]]


def digests_elsewhere(
    names: Sequence[str], *, is_moved: bool = False, is_other_code: bool = False
) -> dict[str, Any]:
    """The digests of some releases of a process of its own, by release and path."""
    done = subprocess.run(
        [sys.executable, "-m", __name__, *([MOVED] if is_moved else []), *names],
        cwd=ROOT,
        env={**os.environ, **(other_code() if is_other_code else {})},
        capture_output=True,
        text=True,
        timeout=3600,
    )
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

    found, made = {}, scenarios()
    for name in names:
        with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
            fix_key(patch)
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


def main(arguments: Sequence[str]) -> None:
    """Prints the digests of the releases of these names."""
    names = list(arguments)
    if names[:1] == [MOVED]:
        names.pop(0)
        for module, functions in ((np, _FUNCTIONS), (math, _OF_MATH)):
            for name in functions:  # before anything of ours is loaded
                setattr(module, name, move(getattr(module, name)))
    sys.stdout.write(json.dumps(digests_here(names)) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
