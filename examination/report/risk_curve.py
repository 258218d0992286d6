"""Risk against use: a method again with other epsilons on the log, each release thrown away.

For the operator only: the numbers are exact about private data, and nothing is spent because
nothing is released. Who chooses an epsilon by them lets the choice tell something of the log.
"""

from __future__ import annotations

import logging
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pydantic

from tracecloak.anonymizers.contract.in_memory import anonymise
from tracecloak.anonymizers.contract.wrong_values import usage_error
from tracecloak.anonymizers.noise.release_key import ReleaseKey
from tracecloak.anonymizers.registry import method_named
from tracecloak.examination.measure.graph_figures import edge_figures
from tracecloak.examination.measure.measures import EdgeWeights
from tracecloak.schemas.arrays.merging import Pieces
from tracecloak.schemas.errors import UsageError
from tracecloak.schemas.events.traces import TraceBatch
from tracecloak.schemas.published.graph import ReleasedGraph
from tracecloak.schemas.published.manifest import ReleaseManifest
from tracecloak.schemas.published.variants import ReleasedVariants
from tracecloak.schemas.statistics.directly_follows import DirectlyFollows
from tracecloak.transforms.publish.figures_data import graph_of_log, graph_of_variants

_LOG = logging.getLogger("tracecloak")
REPETITIONS = 3
_PRIOR = 0.1
# Parameters by which a release counts more than the activities and times of cases.
_NOT_READ = ("max_cases_per_individual", "attributes")


@dataclass(frozen=True)
class CurvePoint:
    """What one epsilon gives.

    Attributes:
        epsilon: It, as text.
        risk: What a guess of 10 % can rise to.
        error: Median relative error of the directly-follows graph.
        is_own: Whether it is the epsilon of the release.
    """

    epsilon: str
    risk: float
    error: float
    is_own: bool


def risk_curve(
    manifest: ReleaseManifest,
    original: TraceBatch,
    epsilons: Sequence[str],
) -> list[CurvePoint]:
    """Returns a point for each epsilon, in ascending order.

    None of a method without that parameter, and of one that releases neither log, graph nor
    variants, such as a tree.

    Args:
        manifest: Of the release whose method and parameters are taken.
        original: The log.
        epsilons: As texts; that of the release is always among them.

    Raises:
        UsageError: The method takes no such epsilon, or the release counts what is not read here:
            individuals, or attributes.
    """
    method = method_named(manifest.method)
    released_epsilon = manifest.params.get("epsilon")
    if "epsilon" not in method.Params.model_fields or released_epsilon is None:
        return []
    for name in _NOT_READ:
        if manifest.params.get(name):
            raise UsageError(
                f"curve cannot be drawn of a release with {name}, which this report does not read: "
                "leave --curve out, and use `tracecloak compare` for the method without it"
            )
    truth = graph_of_log(DirectlyFollows.from_traces(original), original.vocabulary)
    points = []
    for epsilon in _ascending([str(released_epsilon), *epsilons]):
        try:
            params = method.Params(**{**manifest.params, "epsilon": epsilon})
        except pydantic.ValidationError as wrong:
            raise usage_error(wrong, method.name) from None
        errors: list[float] = []
        for number in range(REPETITIONS):
            _LOG.info("curve: epsilon %s (%d of %d)", epsilon, number + 1, REPETITIONS)
            error = _error(method, params, original, truth)
            if error is None:
                return []
            errors.append(error)
        growth = float(np.exp(min(float(epsilon), 500)))
        points.append(
            CurvePoint(
                epsilon,
                _PRIOR * growth / (_PRIOR * growth + 1 - _PRIOR),
                statistics.median(errors),
                float(epsilon) == float(released_epsilon),
            )
        )
    return points


def _ascending(epsilons: Sequence[str]) -> list[str]:
    """The epsilons in order, each once, however it is written."""
    by_value: dict[float, str] = {}
    for text in epsilons:
        try:
            by_value.setdefault(float(text), text)
        except ValueError:
            raise UsageError(
                f"curve must be epsilons separated by commas, got {text!r}; such as 0.5,1,2"
            ) from None
    return [by_value[value] for value in sorted(by_value)]


def _error(method: Any, params: Any, original: TraceBatch, truth: ReleasedGraph) -> float | None:
    """The relative error of the graph of one release; None where it has none."""
    output = anonymise([original], method, params, ReleaseKey.generate(), "curve", "")
    products = [product for _, product in sorted(output.products.by_name.items())]
    graph = next((p for p in products if isinstance(p, ReleasedGraph)), None)
    variants = next((p for p in products if isinstance(p, ReleasedVariants)), None)
    if graph is None and method.log != "none":
        counted = Pieces(DirectlyFollows)
        for batch in output.traces:
            counted.add(DirectlyFollows.from_traces(batch))
        graph = graph_of_log(counted.result(), output.traces[0].vocabulary)
    elif graph is None and variants is not None:
        graph = graph_of_variants(variants)
    if graph is None:
        return None
    error = edge_figures(*_in_one_vocabulary(truth, graph))["edge_relative_error"]
    return float(error or 0.0)


def _in_one_vocabulary(a: ReleasedGraph, b: ReleasedGraph) -> tuple[EdgeWeights, EdgeWeights]:
    code = {name: i for i, name in enumerate(sorted({*a.labels, *b.labels}))}

    def recoded(graph: ReleasedGraph) -> EdgeWeights:
        of = np.array([code[name] for name in graph.labels], np.int32)
        return EdgeWeights(of[graph.sources], of[graph.targets], graph.counts)

    return recoded(a), recoded(b)
