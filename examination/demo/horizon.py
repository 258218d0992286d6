"""How large the noise of a stream's counts is in every step of its horizon.

That is public: it follows from the parameters in the manifest, and was known before the first
message was read. So whoever reads a number now can see what it will be worth at the end.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from tracecloak.anonymizers.streams.dfg_steps import DfgParams
from tracecloak.examination.demo.live_figures import is_end
from tracecloak.schemas.published.step import StepRelease

# Points of the figure: more would not be seen.
_N_POINTS = 200
_WHAT = {
    "window": "number of cases of a step",
    "total": "number of cases so far",
    "sliding": "number of cases of the last steps",
}


def errors_over_horizon(params: Mapping[str, Any]) -> np.ndarray:
    """Returns float64[horizon], the standard deviation of the count of a path in each step.

    Args:
        params: Those of the manifest of a stream whose product is `dfg`.

    Raises:
        ValueError: They are none.
    """
    names = DfgParams.model_fields.keys() & params.keys()
    asked = DfgParams(**{name: params[name] for name in names if params[name] is not None})
    return asked.noises["pairs"].errors(asked.length)


def errors_data(errors: np.ndarray, newest: StepRelease, period_us: int) -> dict[str, Any]:
    """Returns what a page shows of the errors: points of a figure, and sentences.

    Args:
        errors: As of `errors_over_horizon`, of the view of the release.
        newest: The last step that is published.
        period_us: Length of a step.

    Returns:
        `points`, each with `step`, `end_ms`, when it ends, `what` it is the standard deviation of,
        and its `error`; `now`, the step that is shown; and `text`.
    """
    # The number of cases is half the sum of the paths from the start and of those into the end.
    factor = math.sqrt(sum(map(is_end, newest.cells))) / 2
    series = {"count of a path": errors, _WHAT[newest.view]: errors * factor}
    if newest.view == "window":  # windows are added up to the cases so far
        series[_WHAT["total"]] = np.sqrt(np.cumsum(errors * errors)) * factor
    last = len(errors) - 1
    steps = np.linspace(0, last, min(_N_POINTS, len(errors))).round().astype(int)
    steps = np.union1d(steps, [newest.step, int(errors.argmax())])
    first_end_us = newest.end_us - newest.step * period_us
    points = [
        {
            "what": what,
            "step": step,
            "end_ms": (first_end_us + step * period_us) // 1000,
            "error": _rounded(of_steps[step]),
        }
        for what, of_steps in series.items()
        for step in steps.tolist()
    ]
    texts = [_text(what, of_steps, newest.step) for what, of_steps in series.items()]
    return {"points": points, "now": newest.step, "text": " ".join(texts[::-1])}


def _text(what: str, errors: np.ndarray, now: int) -> str:
    """How large the error of a number is in the step that is shown, in the last and at most."""
    last, worst = len(errors) - 1, int(errors.argmax())
    parts = [f"The standard deviation of the {what} is {_rounded(errors[now]):g} in step {now:,}"]
    if now < last and _rounded(errors[now]) == _rounded(errors[last]) == _rounded(errors[worst]):
        parts.append("as in every other")
    elif now < last:
        parts.append(f"{_rounded(errors[last]):g} in the last step, {last:,}")
    if _rounded(errors[worst]) > _rounded(max(errors[now], errors[last])):
        parts.append(f"at most {_rounded(errors[worst]):g}, in step {worst:,}")
    return f"{', '.join(parts)}."


def _rounded(value: float) -> float:
    return float(f"{value:.3g}")
