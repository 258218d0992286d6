"""A small method that declares attributes, for tests of how drivers and files carry them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar, Literal

import numpy as np
import pyarrow as pa
import pytest
from pydantic import Field

from tests.support import registered
from tracecloak.anonymizers.contract import method as contract
from tracecloak.anonymizers.noise.randomness import Randomness, hex_ids
from tracecloak.schemas.events.declarations import Attribute, Declarations, declared
from tracecloak.schemas.events.traces import TraceBatch
from tracecloak.schemas.published.manifest import Guarantee, Kind, Operation
from tracecloak.schemas.statistics.variants import ActivityCounts


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
    """Makes it known by its name for the time of a test."""
    registered.register(monkeypatch, Passing())
