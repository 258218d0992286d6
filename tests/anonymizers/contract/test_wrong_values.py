"""Every parameter and every key with wrong values: told in our words, never in pydantic's."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import pydantic
import pytest

from tracecloak.anonymizers.contract.wrong_values import usage_error
from tracecloak.anonymizers.registry import METHODS
from tracecloak.anonymizers.streams.steps import STREAM_PRODUCTS
from tracecloak.pipelines.configuration.config import Columns, ReleaseConfig, Where, load
from tracecloak.pipelines.stream.config import StreamConfig
from tracecloak.schemas.errors import UsageError

_STREAM: Mapping[str, Any] = {
    "release_id": "r", "epoch": "1", "input_subscription": "projects/p/subscriptions/s",
    "output": "o", "epsilon": "1", "vocabulary": ("A",), "period": "1d", "horizon": 3,
    "start": "2026-01-01", "gap": "1d", "max_lifetime": "9d",
}  # fmt: skip
MODELS: Mapping[str, tuple[type[pydantic.BaseModel], Mapping[str, Any]]] = {
    **{name: (method.Params, method.examples[0]) for name, method in METHODS.items()},
    **{f"stream of {name}": (kind.Params, {}) for name, kind in STREAM_PRODUCTS.items()},
    "release": (ReleaseConfig, {"log": "a", "method": "amun", "output": "o"}),
    "stream": (StreamConfig, _STREAM),
    "columns": (Columns, {}),
    "where": (Where, {"column": "a", "equals": "b"}),
}
WRONG: tuple[Any, ...] = (
    "", "x", "-1", "0", "1.5", "1e400", "nan", "inf", "true", "maybe", "1,2,3", "2026-13-01",
    "2026-01-01", "2026-01-01T00:00", b"\xff", -1, 0, 1.5, 10**30, float("nan"), float("inf"), True,
    None, [], [1], ["x", "y", "z"], [[]], [{}], {}, {"a": 1}, {"a": {"b": []}}, "9" * 5000, ("x",),
)  # fmt: skip
# How pydantic, and Python's own parsers, speak.
FOREIGN = re.compile(
    r"Input should|should be|should have|valid (string|number|integer|boolean|tuple|list|dict)|"
    r"unable to|Extra inputs|not permitted|Decimal input|instance of|isoformat|Value error|"
    r"validation error|type=|constrained-|literal\[|pydantic|<class|wrong kind"
)


@pytest.mark.parametrize("name", MODELS)
def test_no_wrong_value_is_told_in_words_of_pydantic(name: str) -> None:
    model, example = MODELS[name]
    n_wrong = 0
    for field, info in model.model_fields.items():
        key = info.alias or field
        for wrong in WRONG:
            try:
                model(**{**example, key: wrong})
            except pydantic.ValidationError as error:
                n_wrong += 1
                told = str(usage_error(error))
                assert not FOREIGN.search(told), told
                if any(found["loc"][:1] == (key,) for found in error.errors()):
                    assert re.search(rf"(^|; ){key}\b", told), told
            except UsageError as error:  # a check of ours that needs no help
                assert not FOREIGN.search(str(error))
    assert n_wrong > 5


@pytest.mark.parametrize(
    ("method", "params", "told"),
    [
        ("amun", {"guessing_advantage": "1"}, "guessing_advantage: must be below 1, got '1'"),
        ("amun", {"guessing_advantage": "a"}, "guessing_advantage: must be a number, got 'a'"),
        (
            "amun",
            {"guessing_advantage": 0.1, "start_precision_days": "x"},
            "start_precision_days: must be a number or 'authors', got 'x'",
        ),
        (
            "amun",
            {"guessing_advantage": 0.1, "log_start": "2026-01-01T00:00"},
            "log_start: must say its offset from UTC, such as the Z of 2026-01-31T12:00:00Z, got "
            "'2026-01-01T00:00'",
        ),
        ("private-dfg", {}, "epsilon: required"),
        ("private-dfg", {"epsilon": "0"}, "epsilon: must be above 0, got 0"),
        ("private-dfg", {"epsilon": "one"}, "epsilon: must be a decimal number, got 'one'"),
        ("private-dfg", {"epsilon": 1, "durations": "si"}, "durations: must be true or false, got"),
        ("private-dfg", {"epsilon": 1, "max_cases": "1.5"}, "max_cases: must be a whole number"),
        ("tlkc", {"k": "many"}, "k: must be a whole number, got 'many'"),
        (
            "sacofa",
            {"epsilon": 1, "budget": "fair"},
            "budget: must be 'published' or 'honest', got",
        ),
        (
            "private-log",
            {"epsilon": 1, "working_days": "mon,dim"},
            "working_days.1: must be 'mon',",
        ),
        (
            "pretsa",
            {"k": 2, "t": 1, "espilon": 1},
            "espilon: unknown key; pretsa has k, distance, ",
        ),
    ],
)
def test_a_wrong_parameter_is_told_by_its_key_what_it_must_be_and_its_value(
    method: str, params: Mapping[str, Any], told: str
) -> None:
    with pytest.raises(UsageError) as raised:
        load(None, {"log": "a", "output": "o", "method": method, "params": params})
    assert told in str(raised.value)
