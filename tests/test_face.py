"""The public modules: their names, and what a pipeline or a notebook does with them."""

from __future__ import annotations

import ast
import importlib
import inspect
import subprocess
import sys
from pathlib import Path

import pytest

import tracecloak
from tests.support.releasing import csv_log, small_rows
from tracecloak.schemas.published.manifest import TOOL_VERSION

PUBLIC = {
    "tracecloak": [
        "AnonymizeEventLog",
        "Anonymizer",
        "BudgetExhausted",
        "ColumnMapping",
        "Guarantee",
        "GuaranteeError",
        "InputSchemaError",
        "KeyReference",
        "METHODS",
        "Params",
        "PublishDirectlyFollows",
        "ReadEventLog",
        "ReleaseConfig",
        "ReleaseKey",
        "ReleaseManifest",
        "Released",
        "StreamConfig",
        "TracecloakError",
        "UsageError",
        "Verification",
        "WriteRelease",
        "__version__",
        "anonymise",
        "evaluate",
        "group_into_traces",
        "load",
        "load_stream",
        "plan",
        "plan_lines",
        "release",
        "run_release",
        "run_stream",
        "source_of",
        "verify",
        "vocabulary",
    ],
    "tracecloak.plugins": [
        "ActivityVocabulary",
        "Anonymizer",
        "CellStream",
        "CollectNames",
        "Command",
        "CommandEntry",
        "ContinualNoise",
        "ContributionBounds",
        "CountSteps",
        "CountVariants",
        "Counter",
        "Decision",
        "Decisions",
        "DeclaringReader",
        "Exact",
        "Format",
        "Given",
        "Guarantee",
        "InputSchemaError",
        "Mergeable",
        "Operation",
        "Params",
        "PartsMethod",
        "PrivTree",
        "ProductKind",
        "Products",
        "Randomness",
        "RawBatch",
        "Reader",
        "ReleaseKey",
        "ReleasedProduct",
        "ReleasedVariants",
        "Result",
        "RetryLater",
        "RigorousParams",
        "Sensitivity",
        "SourceFormat",
        "Spend",
        "Statistics",
        "StepLog",
        "StepProduct",
        "StepRelease",
        "StreamName",
        "StreamParams",
        "Sums",
        "TraceBatch",
        "TracecloakError",
        "TypedReader",
        "UsageError",
        "VariantGenerator",
        "VariantHistogram",
        "VariantHistogramMethod",
        "VariantHistogramParams",
        "VariantsDecision",
        "Writer",
        "Yield",
        "cell_numbers",
        "continual_noise",
        "counts_part",
        "draw_gaussian",
        "draw_laplace",
        "drawable",
        "fitting",
        "gaussian_scale",
        "guarantee_of",
        "iso_utc",
        "laplace_interval",
        "laplace_scale",
        "most_frequent_first",
        "of_one_cell",
        "require_columns",
        "show",
        "spent",
    ],
}


@pytest.mark.parametrize("module", PUBLIC)
def test_a_public_module_has_these_names_and_each_is_there(module: str) -> None:
    """A name that goes or comes is a decision; whoever built on it has to be told."""
    public = importlib.import_module(module)
    assert public.__all__ == PUBLIC[module]
    assert set(dir(public)) >= set(PUBLIC[module])
    with pytest.raises(AttributeError, match=f"module '{module}' has no attribute 'nothing'"):
        _ = public.nothing


@pytest.mark.parametrize("module", PUBLIC)
def test_type_checkers_see_the_same_names_at_the_same_places(module: str) -> None:
    public = importlib.import_module(module)
    (checked,) = (
        node
        for node in ast.parse(inspect.getsource(public)).body
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
    )
    seen = {
        (alias.name, alias.asname, node.module)
        for node in checked.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    (table,) = (n for part in checked.orelse for n in ast.walk(part) if isinstance(n, ast.Dict))
    offered = {
        (name, name, f"tracecloak.{place}")
        for place, names in ast.literal_eval(table).items()
        for name in names.split()
    }
    assert seen == offered


@pytest.mark.parametrize("module", PUBLIC)
def test_every_signature_of_a_public_module_resolves(module: str) -> None:
    """Editors and documentation evaluate annotations; one that has no name fails there only."""
    for name in PUBLIC[module]:
        value = getattr(importlib.import_module(module), name)
        is_error = inspect.isclass(value) and issubclass(value, Exception)
        if not is_error and (inspect.isclass(value) or inspect.isfunction(value)):
            inspect.signature(value, eval_str=True)


_LOADED = """
import sys, tracecloak.plugins as plugins
sys.modules.pop("tracecloak._folders", None)  # where git made no links
print(sorted(name for name in sys.modules if name.startswith("tracecloak")))
for name in plugins.__all__:
    getattr(plugins, name)
print([name for name in ("apache_beam", "scipy") if name in sys.modules])
"""


def test_a_public_module_loads_nothing_before_it_is_used_and_what_plugins_has_no_beam() -> None:
    done = subprocess.run(
        [sys.executable, "-c", _LOADED], capture_output=True, text=True, timeout=60
    )
    assert done.stdout.splitlines() == [
        "['tracecloak', 'tracecloak._names', 'tracecloak.plugins']",
        "[]",
    ], done.stderr


def test_a_log_is_anonymised_in_memory_by_the_face_alone(tmp_path: Path) -> None:
    log = csv_log(tmp_path / "log.csv", list(small_rows()))
    config = tracecloak.load(
        None,
        {
            "log": str(log), "output": str(tmp_path / "out"),
            "method": "amun", "guessing_advantage": "0.2",
        },
    )  # fmt: skip
    assert any("No finite epsilon" in line for line in tracecloak.plan_lines(config))
    source = tracecloak.source_of(config)
    events = [events for file in source.files for events, _ in source.read(file)]
    made = tracecloak.anonymise(
        tracecloak.group_into_traces(events),
        tracecloak.METHODS[config.method],
        config.method_params,
        tracecloak.ReleaseKey.generate(),
        "notebook",
        config.digest,
    )
    released = {name for batch in made.traces for name in batch.case_ids.to_pylist()}
    assert released and not released & {f"case-{number}" for number in range(12)}


def test_a_wrong_parameter_is_an_error_of_the_face() -> None:
    with pytest.raises(tracecloak.UsageError, match="method must be one of"):
        tracecloak.load(None, {"method": "none"})
    assert issubclass(tracecloak.UsageError, tracecloak.TracecloakError)


def test_the_version_is_the_installed_one_everywhere() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tracecloak", "--version"],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0
    assert done.stdout == f"tracecloak {tracecloak.__version__}\n"
    assert tracecloak.__version__ == TOOL_VERSION
