"""Two small methods that declare attributes, for tests of how drivers and files carry them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from typing import Any, ClassVar, Literal

import numpy as np
import pyarrow as pa
import pytest
from pydantic import Field

from tests.support import registered
from tracecloak.anonymizers.contract import method as contract
from tracecloak.anonymizers.logs.attributes import (
    AttributeCounter,
    attribute_of_traces,
    changed_values,
    decide_attribute,
    n_rows_of,
)
from tracecloak.anonymizers.noise.randomness import Randomness, hex_ids
from tracecloak.anonymizers.rigorous.budget import Sums, budget_of
from tracecloak.anonymizers.times.case_classes import CaseClasses
from tracecloak.anonymizers.variants.method import (
    VariantHistogramMethod,
    VariantHistogramParams,
)
from tracecloak.schemas.events.declarations import Attribute, Declarations, declared
from tracecloak.schemas.events.events import ActivityVocabulary
from tracecloak.schemas.events.traces import TraceBatch
from tracecloak.schemas.published.manifest import Guarantee, Kind, Operation
from tracecloak.schemas.statistics.clipped_flows import ClippedCells
from tracecloak.schemas.statistics.variants import ActivityCounts

_CLIP_UNITS = 4 * 1024


class _OfVariants(AttributeCounter):
    """Counts by the classes of the released variants."""

    def count(
        self, traces: TraceBatch, decisions: contract.Decisions, randomness: Randomness
    ) -> ClippedCells:
        known = {"variants": decisions["variants"].variants}
        return super().count(traces, known, randomness)


class GeneratingParams(VariantHistogramParams):
    """Those of `variant-histogram`, with a public vocabulary, and attributes."""

    attributes: Declarations = Field(default_factory=dict)
    """The declared attributes."""


class Generating(VariantHistogramMethod):
    """Variants as `variant-histogram` releases them, with attributes from noisy marginals.

    Each histogram spends as much as the variants do; nothing here is an honest guarantee.
    """

    name: ClassVar[str] = "generating"
    Params: ClassVar[type[GeneratingParams]] = GeneratingParams

    def attributes(self, params: GeneratingParams) -> tuple[Attribute, ...]:
        return declared(params.attributes)

    def rounds(self, params: GeneratingParams) -> tuple[str, ...]:
        return ("variants", *params.attributes)

    def _declared(self, params: GeneratingParams, name: str) -> Attribute:
        return Attribute(name, params.attributes[name])

    def requires(self, round_name: str, params: GeneratingParams) -> Mapping[str, contract.Counter]:
        if round_name == "variants":
            return super().requires(round_name, params)
        own = self._declared(params, round_name)
        return {"cells": _OfVariants(own, False, _CLIP_UNITS)}

    def decide(
        self,
        round_name: str,
        statistics: Mapping[str, Any],
        decisions: contract.Decisions,
        params: GeneratingParams,
        randomness: Randomness,
    ) -> Any:
        if round_name == "variants":
            return super().decide(round_name, statistics, decisions, params, randomness)
        own = self._declared(params, round_name)
        epsilon, delta = params.budget
        changed = changed_values(own, _CLIP_UNITS, params.max_units, is_pure=False)
        need = Sums(own.name, Fraction(1), *changed)
        noise = budget_of(epsilon, delta, (need,)).means[own.name].noise(*changed)
        names = ActivityVocabulary.public(params.vocabulary or ())
        n_rows = n_rows_of(own, CaseClasses.of(decisions["variants"].variants, names), len(names))
        return decide_attribute(own, statistics["cells"], n_rows, noise, randomness)

    def generate(
        self,
        piece: int,
        n_pieces: int,
        decisions: contract.Decisions,
        params: GeneratingParams,
        randomness: Randomness,
    ) -> TraceBatch:
        made = super().generate(piece, n_pieces, decisions, params, randomness)
        made = made.recode(ActivityVocabulary.public(params.vocabulary or ()))
        cases = piece + n_pieces * np.arange(made.n_cases)
        classes = CaseClasses.of(decisions["variants"].variants, made.vocabulary)
        values = {
            own.name: attribute_of_traces(
                decisions[own.name], own, made, classes, cases, randomness
            )
            for own in self.attributes(params)
        }
        return replace(made, attributes={**made.attributes, **values})


class PassingParams(contract.Params):
    """What `passing` takes."""

    attributes: Declarations = Field(default_factory=dict)
    """The declared attributes."""
    wrongly: bool = False
    """Release the texts of the source, as no method may."""


class _Nothing:
    kind: ClassVar[type[ActivityCounts]] = ActivityCounts

    def count(self, traces: TraceBatch, decisions: Any, randomness: Randomness) -> ActivityCounts:
        return ActivityCounts.merge([])


class Passing(contract.Anonymizer):
    """Releases every case under a new id, its attributes as the middle of their bins: not private.

    A method whose log is transformed, of which no batch is released where none came in.
    """

    name: ClassVar[str] = "passing"
    summary: ClassVar[str] = "the log as it is, for tests"
    guarantee_kind: ClassVar[Kind] = "published"
    log: ClassVar[Literal["transformed"]] = "transformed"
    Params: ClassVar[type[PassingParams]] = PassingParams
    operations: ClassVar[tuple[Operation, ...]] = (Operation("substitution", "case", "case"),)
    exact_noise: ClassVar[bool] = True

    def attributes(self, params: PassingParams) -> tuple[Attribute, ...]:
        return declared(params.attributes)

    def rounds(self, params: PassingParams) -> tuple[str, ...]:
        return ("nothing",)

    def guarantee(self, params: PassingParams) -> Guarantee:
        return Guarantee("published", "case", "add_remove", None, None, "None.", "None.", ())

    def explain(self, params: PassingParams) -> tuple[str, ...]:
        return ("nothing: nothing is protected",)

    def requires(self, round_name: str, params: PassingParams) -> Mapping[str, contract.Counter]:
        return {"nothing": _Nothing()}

    def decide(self, *_: Any) -> contract.Decision:
        return contract.Decision()

    def apply(
        self, traces: TraceBatch, decisions: Any, params: PassingParams, randomness: Randomness
    ) -> TraceBatch:
        ids = hex_ids(randomness.words("id", randomness.identify("case", traces.case_ids)))
        values: dict[str, pa.Array] = {}
        for own in self.attributes(params):
            found = traces.attributes[own.name]
            cells = own.cells(found)
            values[own.name] = (
                found if params.wrongly else own.values_of(cells, np.full(len(cells), 0.5))
            )
        return replace(traces, case_ids=ids, attributes=values)


def register(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes both known by their names for the time of a test."""
    registered.register(monkeypatch, Generating(), Passing())
