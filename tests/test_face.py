"""The public modules: their names, and what a pipeline or a notebook does with them."""

from __future__ import annotations

import importlib
import re
import subprocess
import sys
from pathlib import Path

import pytest

from deploy.stubs import ROOT, stubs

PUBLIC = {
    "tracecloak": [
        "AnonymizeEventLog", "Anonymizer", "BudgetExhausted", "ColumnMapping", "Guarantee",
        "GuaranteeError", "InputSchemaError", "KeyReference", "METHODS", "Params", "PluginMethod",
        "PublishDirectlyFollows", "ReadEventLog", "ReleaseConfig", "ReleaseKey", "ReleaseManifest",
        "Released", "Session", "StreamConfig", "TracecloakError", "UsageError", "Verification",
        "WriteRelease",
        "__version__", "anonymise", "evaluate", "group_into_traces", "load", "load_stream", "plan",
        "plan_lines", "release", "run_release", "run_stream", "session", "source_of", "verify",
        "vocabulary",
    ],
    "tracecloak.plugins": [
        "ActivityVocabulary", "Anonymizer", "CellStream", "CollectNames", "Command", "CommandEntry",
        "ContinualNoise", "ContributionBounds", "CountSteps", "CountVariants", "Counter",
        "Decision", "Decisions", "DeclaringReader", "Exact", "Format", "Given", "Guarantee",
        "InputSchemaError", "Mergeable", "Operation", "Params", "PartsMethod", "PluginMethod",
        "PrivTree", "ProductKind", "Products", "Randomness", "RawBatch", "Reader", "ReleaseKey",
        "ReleasedProduct", "ReleasedVariants", "Result", "RetryLater", "RigorousParams",
        "Sensitivity", "SourceFormat", "Spend", "Statistics", "StepLog", "StepProduct",
        "StepRelease", "StreamName", "StreamParams", "Sums", "TraceBatch", "TracecloakError",
        "TypedReader", "UsageError", "VariantGenerator", "VariantHistogram",
        "VariantHistogramMethod", "VariantHistogramParams", "VariantsDecision", "Writer", "Yield",
        "cell_numbers", "continual_noise", "counts_part", "draw_gaussian", "draw_laplace",
        "drawable", "fitting", "gaussian_scale", "guarantee_of", "iso_utc", "laplace_interval",
        "laplace_scale", "most_frequent_first", "of_one_cell", "require_columns", "show", "spent",
    ],
}  # fmt: skip


@pytest.mark.parametrize("module", PUBLIC)
def test_a_public_module_has_these_names_and_each_is_there(module: str) -> None:
    """A name that goes or comes is a decision; whoever built on it has to be told."""
    public = importlib.import_module(module)
    assert public.__all__ == PUBLIC[module]
    assert set(dir(public)) >= set(PUBLIC[module])
    with pytest.raises(AttributeError, match=f"module '{module}' has no attribute"):
        _ = public.nothing


def test_the_stubs_of_the_public_modules_are_those_of_the_parameters() -> None:
    for name, text in stubs().items():
        assert (ROOT / "tracecloak" / name).read_text() == text, "make schema writes the stubs"


# A call a line; those below WRONG must each be an error, and the others none.
CALLS = """
from decimal import Decimal
from typing import Any, assert_type

import polars as pl

import tracecloak as t
from tracecloak.plugins import PluginMethod

frame = pl.DataFrame({"case_id": ["a"]})
text: str = "private-dfg"
common: dict[str, Any] = {"epsilon": 1}
released = t.release(frame, method="private-log", epsilon=1, vocabulary=["A"], account="a")
assert_type(released, t.Released[pl.DataFrame])
assert_type(released.log, pl.DataFrame | None)
assert_type(t.release(frame.lazy(), method="amun").graph, pl.LazyFrame | None)
assert_type(released.manifest, dict[str, Any])
t.release(frame, method="private-dfg", params={"epsilon": Decimal("0.1")}, where="a = 1")
t.release(frame, method="pripel", epsilon=1, max_prefix_length=5, p_harmful=2, query="sacofa")
t.release(frame, method="tlkc", sensitive={"cost": {"bounds": (0, 9), "n_bins": 3}}, title="T")
t.release(frame, method="pappi", epsilon="1", indicators=["cases", {"indicator": "cases"}])
t.release(frame, method="private-dfg", **common)
t.release(frame, method=PluginMethod("last-activities"), epsilon=1, least=3)
assert_type(t.plan(frame, method="privtree", epsilon=1, goal="figures").first, tuple[str, ...])
assert_type(t.session(frame, account="a").ask("map", epsilon=1), t.Released[pl.DataFrame])
assert_type(t.vocabulary(frame, activity="step", rename={"a": "A"}), list[str])
assert_type(t.evaluate(frame, released, case_id="c", ledger="sqlite://").figures, dict[str, Any])
t.AnonymizeEventLog("amun", guessing_advantage=0.4, release_id="r", unaccounted=True, key="file:k")
t.AnonymizeEventLog("private-log", {"epsilon": 1}, columns={"case_id": "c"}, release_id="r")
t.WriteRelease("private-dfg", epsilon=1, release_id="r", output="o", formats=["csv"])
t.ReadEventLog("a.csv", case_id="c", delimiter=";")
t.load(None, {"log": "a.csv", "method": "amun", "output": "o"}).method_params
# WRONG
t.release(frame, method="private-dfg", epsilonn=1)
t.release(frame, method="private-dfg", epsilon=1, acount="a")
t.release(frame, method="private-dgf", epsilon=1)
t.release(frame, method=text, epsilon=1)
t.release(frame, method="private-dfg", epsilon=[1])
t.release(frame, method="private-dfg", epsilon=1, k=3)
t.release(frame, method="private-dfg")
t.release(frame, method="private-dfg", params={"epsilonn": 1})
t.release(frame, method="private-dfg", epsilon=1, query="SELECT 1")
t.release(frame, method="tlkc", sensitive={"cost": {"bound": (0, 9)}})
t.release("log.csv", method="private-dfg", epsilon=1)
t.plan(frame, method="private-dfg", epsilon=1, gaol="figures")
t.session(frame, acount="a")
t.vocabulary(frame, activty="step")
t.evaluate(frame, released, epsilon=1)
released.logs
t.AnonymizeEventLog("amun", release_id=None)
t.AnonymizeEventLog("private-log", epsilon=1)
t.AnonymizeEventLog(text, epsilon=1, release_id="r")
t.WriteRelease("private-dfg", epsilon=1, release_id="r", output="o", formats=1)
t.WriteRelease("private-dfg", epsilon=1, release_id="r")
t.ReadEventLog("a.csv", drop_duplicates=True)
t.PublishDirectlyFollows(output="o", release_id="r", epoch="e")
"""


@pytest.mark.skipif(not (ROOT / "tracecloak/schemas").is_dir(), reason="git made no links")
def test_a_call_with_a_wrong_name_or_value_is_an_error_of_types_in_one_line(tmp_path: Path) -> None:
    calls = tmp_path / "calls.py"
    calls.write_text(CALLS)
    done = subprocess.run(
        [sys.executable, "-m", "mypy", calls], cwd=ROOT, capture_output=True, text=True, timeout=280
    )
    found = re.findall(r"calls\.py:(\d+): (?:error|note): (.*)", done.stdout)
    lines = CALLS.splitlines()
    first = lines.index("# WRONG") + 2
    assert {int(line) for line, _ in found} == {*range(first, len(lines) + 1)}, done.stdout
    assert len(found) < 2 * (len(lines) - first), done.stdout  # and not every signature of each
    assert not re.search(r"^tracecloak.*pyi:", done.stdout, re.MULTILINE), done.stdout
