"""Six indicators of public logs: errors over keys, beside Laplace figures and the paper.

Cases, mean and median throughput time, share in time, share with rework, cases with an activity, at
one epsilon for all six. The public bound of times is five means, rounded up to two digits, the
limit is the mean, and the activity is the one that is nearest to half of the cases. Logs are those
of TRACECLOAK_LOGS. `pappi`, which has no medians, has five sixths of epsilon for the
other five. EPSILON and KEYS say another epsilon and number of keys.
"""

from __future__ import annotations

import math
import os
import tempfile
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from tests.benchmarks.harness import ratio
from tests.support.keys import release_key
from tests.support.real_logs import real_log
from tracecloak.anonymizers.contract.in_memory import anonymise
from tracecloak.anonymizers.indicators.errors import PrivateIndicators
from tracecloak.anonymizers.indicators.pappi import Pappi, PappiParams
from tracecloak.anonymizers.indicators.params import IndicatorParams
from tracecloak.anonymizers.indicators.summands import (
    RANGE,
    Summand,
    occurrences,
    repeats,
    throughput_of,
)
from tracecloak.anonymizers.indicators.terms import grid
from tracecloak.examination.demo.hospital import write_sample
from tracecloak.schemas.calendar.durations import short_duration
from tracecloak.schemas.events.traces import TraceBatch

FIGURES = ("cases", "mean", "median", "within", "rework", "frequency")
_SECOND_US = 1_000_000
_BOUND_IN_MEANS = 5
_LAPLACE_DRAWS = 4_000


@dataclass(frozen=True)
class Setting:
    """A log, and what is public of it."""

    traces: TraceBatch

    @cached_property
    def times_us(self) -> np.ndarray:
        """int64[n_cases], throughput times."""
        return throughput_of(self.traces)

    @cached_property
    def high_us(self) -> int:
        """The bound of times."""
        seconds = int(_BOUND_IN_MEANS * self.times_us.mean() / _SECOND_US) + 1
        digits = 10 ** max(len(str(seconds)) - 2, 0)
        return -(-seconds // digits) * digits * _SECOND_US

    @cached_property
    def limit_us(self) -> int:
        """The limit of what is in time."""
        return (int(self.times_us.mean() / _SECOND_US) + 1) * _SECOND_US

    @cached_property
    def activity(self) -> str:
        """The activity whose cases are counted."""
        names = self.traces.vocabulary.names.to_pylist()
        shares = (occurrences(self.traces, names) > 0).mean(axis=0)
        return str(names[int(np.abs(shares - 0.5).argmin())])

    @cached_property
    def of_cases(self) -> dict[str, np.ndarray]:
        """What the figures are made of: an array each, in seconds and as 0 or 1."""
        has = occurrences(self.traces, [self.activity])[:, 0] > 0
        return {
            "duration": np.minimum(self.times_us, self.high_us) / _SECOND_US,
            "within": (self.times_us <= self.limit_us).astype(np.int64),
            "rework": repeats(self.traces).astype(np.int64),
            "has": has.astype(np.int64),
        }

    @cached_property
    def truth(self) -> np.ndarray:
        """float64[6], the figures of the log, within the bound."""
        of_cases, n = self.of_cases, self.traces.n_cases
        median = np.sort(of_cases["duration"])[max(math.ceil(n / 2) - 1, 0)]
        shares = (of_cases["within"].mean(), of_cases["rework"].mean())
        return np.array([n, of_cases["duration"].mean(), median, *shares, of_cases["has"].sum()])

    def params(self, epsilon: str) -> IndicatorParams:
        """What is asked of it."""
        high = short_duration(self.high_us)
        asked = [
            "cases",
            f"throughput at_most={high}",
            f"throughput of=median at_most={high}",
            f"within limit={short_duration(self.limit_us)}",
            "rework",
            {"indicator": "frequency", "activity": self.activity},
        ]
        return IndicatorParams.model_validate({"epsilon": epsilon, "indicators": asked})


def released(setting: Setting, epsilon: str, n_keys: int) -> np.ndarray:
    """float64[3, n_keys, 6], values, lower and upper ends that `private-indicators` releases."""
    params, method = setting.params(epsilon), PrivateIndicators()
    rows = []
    for key in range(n_keys):
        made = anonymise([setting.traces], method, params, release_key(key), "six", "d" * 8)
        rows.append(made.products.by_name["indicators"].rows())
    ends = ("value", "low", "high")
    return np.array([[[getattr(r, end) for r in row] for row in rows] for end in ends])


def by_laplace(setting: Setting, epsilon: float) -> np.ndarray:
    """float64[n, 6], Laplace figures at a sixth of epsilon; the median is drawn by its weights."""
    rng, scale = np.random.default_rng(0), 6 / epsilon
    of_cases, high = setting.of_cases, setting.high_us / _SECOND_US

    def noise() -> np.ndarray:
        return rng.laplace(0, scale, _LAPLACE_DRAWS)

    n = setting.traces.n_cases + noise()
    mean = np.clip((of_cases["duration"].sum() + high * noise()) / np.maximum(n, 1), 0, high)
    shares = [
        np.clip((of_cases[name].sum() + noise()) / np.maximum(n, 1), 0, 1)
        for name in ("within", "rework")
    ]
    points = grid()
    places = Summand(0.0, high).places(of_cases["duration"])
    counts = np.bincount(np.searchsorted(points, places), minlength=len(points))
    reached = np.cumsum(counts)
    goal = setting.traces.n_cases / 2
    lack = np.maximum(np.maximum(reached - counts - goal, goal - reached), 0)
    weights = np.exp(-lack / scale)
    chosen = rng.choice(len(points), _LAPLACE_DRAWS, p=weights / weights.sum())
    middles = np.append(0, (points[1:] + points[:-1]) / 2) / RANGE * high
    has = of_cases["has"].sum() + noise()
    return np.stack([n, mean, middles[chosen], *shares, has], axis=1)


def by_paper(setting: Setting, epsilon: float, n_keys: int) -> np.ndarray:
    """float64[n_keys, 6], what `pappi` releases: no median, and not the number that it knows."""
    whole = setting.params("1").model_dump(mode="json")["indicators"]
    asked = [indicator for place, indicator in enumerate(whole) if FIGURES[place] != "median"]
    params = PappiParams.model_validate({"epsilon": f"{epsilon * 5 / 6:.6f}", "indicators": asked})
    rows = []
    for key in range(n_keys):
        made = anonymise([setting.traces], Pappi(), params, release_key(key), "six", "d" * 8)
        values = [row.value for row in made.products.by_name["indicators"].rows()]
        rows.append([math.nan, values[1], math.nan, *values[2:]])
    return np.array(rows)


def ratios(ours: np.ndarray, theirs: np.ndarray) -> np.ndarray:
    """float64[6], our median error to theirs, where that is not 0; else of the mean errors."""
    medians = np.median(ours, axis=0), np.median(theirs, axis=0)
    means = ours.mean(axis=0), np.maximum(theirs.mean(axis=0), 1e-12)
    is_known = np.minimum(*medians) > 0
    of_medians = medians[0] / np.where(is_known, medians[1], 1)
    known = np.where(is_known, of_medians, means[0] / means[1])
    return np.where(np.isnan(theirs).any(axis=0), math.nan, known)


def show(name: str, setting: Setting, epsilon: str, n_keys: int) -> dict[str, float]:
    """Prints the figures of a log; returns its worst ratios by what they are to."""
    values, lows, highs = released(setting, epsilon, n_keys)
    off = np.abs(values - setting.truth)
    covered = ((lows <= setting.truth) & (setting.truth <= highs)).mean(axis=0)
    widths = (highs - lows).mean(axis=0) / 2
    print(f"{name}: {setting.traces.n_cases:,} cases, epsilon {epsilon}, {n_keys} keys")
    peers = {
        "Laplace": by_laplace(setting, float(epsilon)),
        "pappi": by_paper(setting, float(epsilon), n_keys),
    }
    to = {name: ratios(off, np.abs(peer - setting.truth)) for name, peer in peers.items()}
    for place, figure in enumerate(FIGURES):
        median, most = np.median(off[:, place]), np.quantile(off[:, place], 0.95)
        truth = setting.truth[place]
        unit = 1 if figure in ("within", "rework") else truth
        beside = ", ".join(
            f"{of[place]:.2f} of {peer}" for peer, of in to.items() if not math.isnan(of[place])
        )
        print(
            f"  {figure:10s} off by {median / unit:8.3%} (95 %: {most / unit:8.3%}), {beside}; "
            f"held in {covered[place]:.3f}, half width {widths[place] / max(most, 1e-12):.2f} of "
            "the 95 % error"
        )
    means = {peer: np.exp(np.nanmean(np.log(np.maximum(of, 1e-3)))) for peer, of in to.items()}
    return {
        **{f"{peer}, geometric mean": float(mean) for peer, mean in means.items()},
        **{f"{peer}, worst figure": float(np.nanmax(of)) for peer, of in to.items()},
    }


def main() -> None:
    """Prints the figures of every log, and the worst ratios."""
    folder, epsilon = os.environ.get("TRACECLOAK_LOGS"), os.environ.get("EPSILON", "1")
    n_keys = int(os.environ.get("KEYS", "200"))
    with tempfile.TemporaryDirectory() as made_up:
        write_sample(2_000, str(Path(made_up, "log.parquet")))
        settings = {"made-up hospital": Setting(real_log(Path(made_up), "log.parquet"))}
    if folder is None:
        print("TRACECLOAK_LOGS is not set: of a made-up log alone")
    else:
        logs = [*Path(folder).glob("*.xes.gz"), *Path(folder).glob("*.parquet")]
        settings |= {path.name: Setting(real_log(Path(folder), path.name)) for path in sorted(logs)}
    worst: dict[str, float] = {}
    for name, setting in settings.items():
        for what, value in show(name, setting, epsilon, n_keys).items():
            worst[what] = max(worst.get(what, 0.0), value)
    bounds = {"geometric mean": 0.9, "worst figure": 1.05}
    for what, value in worst.items():
        bound = bounds[what.partition(", ")[2]] if what.startswith("Laplace") else 1.1
        ratio(f"errors of six indicators to those of {what} of all logs", value, bound)


if __name__ == "__main__":
    main()
