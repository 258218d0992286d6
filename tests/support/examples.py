"""Parameters of methods beside those of their catalogue: what tests of all methods go through."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, get_args, get_origin

from tracecloak.anonymizers.contract.method import Anonymizer
from tracecloak.anonymizers.registry import METHODS

# A public model of A, then B or C.
_MODEL = {
    "activities": ("A", "B", "C"),
    "begins": ("A",),
    "never": (("A", "A"), ("B", "A"), ("C", "A"), ("C", "B"), ("C", "C")),
    "always_follows": (("A", "B"),),
    "always_precedes": (("A", "B"), ("A", "C"), ("B", "C")),
}
FURTHER: Mapping[str, tuple[Mapping[str, Any], ...]] = {
    "private-dfg": (
        {
            "epsilon": "20",
            "delta": "1e-5",
            "buy_vocabulary": True,
            "durations": True,
            "n_duration_bins": 4,
        },
        {"epsilon": "2", "delta": "0", "vocabulary": ("A", "B"), "max_trace_length": 3},
        {"epsilon": "9", "vocabulary": ("A", "B"), "max_cases_per_individual": 2},
        {"epsilon": "9", "vocabulary": ("A", "B", "C", "D", "E")},
    ),
    "private-indicators": (
        {
            "epsilon": "10",
            "delta": "1e-5",
            "max_activities": 8,
            "indicators": (
                "cases by=year",
                "throughput of=mean",
                "frequency by=activity n_groups=3 at_most=2",
                "waiting by=pair n_groups=2 at_most=10d",
                "workload n_groups=2 at_most=4",
                "amount attribute=case:age bounds=0|100 of=sum by=case:diagnosis n_groups=2",
            ),
        },
        {
            "epsilon": "4",
            "delta": "0",
            "vocabulary": ("A", "B", "C"),
            "max_cases_per_individual": 2,
            "indicators": (
                "cases where.occurs=B",
                "within limit=2d by=case:diagnosis groups=A|B",
                "rule template=response activity=A then=B within=7d priority=2",
                "rework by=activity",
                "amount attribute=case:age bounds=0|100 of=0.25|0.75",
                "workload groups=R1|R2 at_most=3",
                "throughput of=histogram n_bins=4 at_most=30d where.attribute=case:diagnosis "
                "where.equals=A",
            ),
        },
        {
            "epsilon": "2",
            "first_date": "2020-01-01",
            "last_date": "2020-12-31",
            "calendar_time_zone": "Europe/Amsterdam",
            "indicators": (
                "cases by=quarter",
                "throughput by=quarter at_most=60d",
                "throughput of=0.05|0.1|0.2|0.3|0.4|0.5|0.6|0.7|0.8|0.9|0.95|0.99 at_most=60d",
                "waiting activity=A then=B at_most=10d where.occurs=C",
                "waiting by=pair groups=A>B|B>C at_most=10d of=median",
                "within limit=2d by=month",
            ),
        },
    ),
    "amun-rigorous": (
        {
            "guessing_advantage": "0.3",
            "delta": "0",
            "vocabulary": ("A", "B"),
            "max_trace_length": 3,
            "max_cases_per_individual": 2,
            "n_duration_bins": 4,
        },
    ),
    "pripel-rigorous": (
        {
            "epsilon": "4",
            "delta": "0",
            "vocabulary": ("A", "B"),
            "max_prefix_length": 3,
            "p_harmful": 2,
            "max_cases_per_individual": 2,
            "n_duration_bins": 4,
        },
    ),
    "private-log": (
        {
            "epsilon": "40",
            "delta": "1e-5",
            "buy_vocabulary": True,
            "n_duration_bins": 4,
            "attributes": {"org:resource": {"values": ["R1", "R2"], "handovers": True}},
        },
        {
            "epsilon": "4",
            "delta": "0",
            "vocabulary": ("A", "B"),
            "max_trace_length": 3,
            "max_cases_per_individual": 2,
            "n_duration_bins": 4,
            "granularity": "second",
            "attributes": {"case:age": {"bounds": [0, 100], "n_bins": 2, "whole": True}},
        },
        {"epsilon": "2", "vocabulary": ("A", "B"), "max_trace_length": 4, "products": "variants"},
    ),
    "pripel": (
        {
            "epsilon": "2",
            "max_prefix_length": 4,
            "p_harmful": 3,
            "duration_bounds": "log",
            "attributes": {
                "org:resource": {"values": ["R1", "R2"]},
                "case:age": {"bounds": [0, 100], "n_bins": 10, "whole": True},
            },
        },
        {
            "epsilon": "1",
            "max_prefix_length": 5,
            "p_harmful": 4,
            "query": "sacofa",
            "p_harmless": 2,
        },
    ),
    "laplace-dfg": (
        {"epsilon": "1", "vocabulary": ("A", "B", "C"), "max_trace_length": 4},
        {"epsilon": "1", "profile": "paper", "vocabulary": ("A", "B"), "max_trace_length": 3},
        {
            "epsilon": "2",
            "vocabulary": ("A", "B"),
            "max_trace_length": 3,
            "max_cases_per_individual": 2,
        },
        {"epsilon": "2", "budget": "honest", "vocabulary": ("A", "B"), "max_trace_length": 3},
    ),
    "laplace-variants": (
        {"epsilon": "1", "max_prefix_length": 3, "p_harmful": 4, "vocabulary": ("A", "B", "C")},
        {
            "epsilon": "4",
            "max_prefix_length": 4,
            "p_harmful": 5,
            "vocabulary": ("A", "B", "C"),
            "budget": "honest",
        },
        {
            "epsilon": "4",
            "max_prefix_length": 3,
            "p_harmful": 8,
            "vocabulary": ("A", "B"),
            "budget": "honest",
            "max_cases_per_individual": 2,
        },
    ),
    "sacofa": (
        {
            "epsilon": "1",
            "max_prefix_length": 4,
            "p_harmful": 4,
            "score": "continuous",
            "max_violations": 3,
        },
        {
            "epsilon": "1",
            "max_prefix_length": 3,
            "p_harmful": 4,
            "vocabulary": ("A", "B", "C"),
            "rules": "model",
            "model": _MODEL,
        },
        {
            "epsilon": "4",
            "max_prefix_length": 4,
            "p_harmful": 6,
            "p_harmless": 4,
            "vocabulary": ("A", "B", "C"),
            "rules": "model",
            "model": _MODEL,
            "budget": "honest",
            "max_cases_per_individual": 2,
        },
        {
            "epsilon": "8",
            "max_prefix_length": 3,
            "p_harmful": 4,
            "vocabulary": ("A", "B"),
            "rules": "bought",
            "budget": "honest",
        },
    ),
    "sapa": (
        {"epsilon": "1", "query": "laplace", "vocabulary": ("A", "B"), "max_trace_length": 4},
        {"epsilon": "2", "profile": "paper", "k_follows": 2, "max_cases_per_individual": 2},
        {
            "epsilon": "2",
            "query": "laplace",
            "budget": "honest",
            "vocabulary": ("A", "B"),
            "max_trace_length": 3,
        },
    ),
    "k-anonymous-variants": (
        {"k": 2, "knowledge_kind": "relative", "time_unit": "days"},
        {
            "k": 2,
            "perspective": "activity_resource",
            "resources": {"org:resource": {"values": ["R1", "R2"]}},
        },
    ),
    "k-anonymous-subtraces": (
        {"k": 2, "knowledge_kind": "relative", "time_unit": "days"},
        {
            "k": 2,
            "perspective": "activity_resource",
            "resources": {"org:resource": {"values": ["R1", "R2"]}},
        },
    ),
    "tlkc": (
        {"k": 2, "knowledge_kind": "sequence", "algorithm": "frequent_traces"},
        {
            "k": 2,
            "perspective": "activity_resource",
            "resources": {"org:resource": {"values": ["R1", "R2"]}},
            "sensitive": {
                "case:diagnosis": {"values": ["A", "B", "C"]},
                "case:age": {"bounds": [0, 119], "n_bins": 120, "whole": True},
            },
        },
    ),
    "pappi": (
        {
            "epsilon": "1",
            "mechanism": "interval",
            "indicators": ("throughput of=sum at_most=30d", "within limit=7d"),
        },
    ),
}


def examples_of(method: Anonymizer) -> tuple[Mapping[str, Any], ...]:
    """The parameters that a method shows, and further ones."""
    return (*method.examples, *FURTHER.get(method.name, ()))


def rigorous_examples() -> list[tuple[str, int]]:
    """(name, number) of every example of every method whose guarantee is rigorous."""
    return [
        (name, number)
        for name, method in METHODS.items()
        for number, example in enumerate(examples_of(method))
        if method.guarantee(method.Params(**example)).kind == "rigorous"
    ]


def options(annotation: Any) -> list[Any]:
    """The values of the literals and booleans in a field's type."""
    if get_origin(annotation) is Literal:
        return list(get_args(annotation))
    if annotation is bool:
        return [False, True]
    return [value for part in get_args(annotation) for value in options(part)]
