"""Six figures written by hand with OpenDP's Polars half, in an environment of its own.

It refuses the polars that this project has, so it is run by another Python:

    python -m venv other && other/bin/pip install "opendp[polars]" numpy
    other/bin/python tests/benchmarks/indicators_by_hand.py CASES.parquet EPSILON N_KEYS

`indicators.py` writes the file: a row for each case, and beside it, as JSON, the public bound.
Prints a list of N_KEYS lists: cases, mean, median, share in time, share with rework, cases with an
activity. Each query has a sixth of epsilon, and means and shares divide by the noisy number.
"""

from __future__ import annotations

import json
import sys
import warnings

import numpy as np
import opendp.prelude as dp
import polars as pl

# Places that the median can take, evenly over the range.
_N_CANDIDATES = 5_001


def main(path: str, epsilon: float, n_keys: int) -> None:
    """Prints the figures of all keys."""
    warnings.simplefilter("ignore")
    dp.enable_features("contrib")
    with open(f"{path}.json", encoding="utf-8") as stream:
        high = json.load(stream)["high"]
    cases = pl.read_parquet(path).lazy()
    duration = pl.col("duration").fill_null(0.0).fill_nan(0.0)
    context = dp.Context.compositor(
        data=cases,
        privacy_unit=dp.unit_of(contributions=1),
        privacy_loss=dp.loss_of(epsilon=epsilon),
        split_evenly_over=6,
        margins=[dp.polars.Margin(max_length=10_000_000)],
    )
    queries = [
        dp.len(),
        duration.dp.sum((0.0, high)),
        duration.dp.median(np.linspace(0.0, high, _N_CANDIDATES).tolist()),
        *(pl.col(name).fill_null(0).dp.sum((0, 1)) for name in ("within", "rework", "has")),
    ]
    measurements = [context.query().select(query).resolve() for query in queries]
    rows = []
    for _ in range(n_keys):
        n, total, median, within, rework, has = (m(cases).collect().item() for m in measurements)
        n = max(n, 1)
        shares = [min(max(count / n, 0.0), 1.0) for count in (within, rework)]
        rows.append([n, min(max(total / n, 0.0), high), median, *shares, has])
    json.dump(rows, sys.stdout)


if __name__ == "__main__":
    main(sys.argv[1], float(sys.argv[2]), int(sys.argv[3]))
