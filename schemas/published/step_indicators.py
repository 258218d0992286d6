"""What one step of a stream publishes of declared indicators."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, ClassVar

import pyarrow as pa

from tracecloak.schemas.errors import UsageError
from tracecloak.schemas.published.indicators import ReleasedIndicators
from tracecloak.schemas.published.step import STEP_FIELDS, View, with_facts
from tracecloak.schemas.texts.bounded_json import bounded_json


@dataclass(frozen=True, eq=False)
class StepIndicators:
    """The indicators that a stream publishes for one step; a `Step`.

    Attributes:
        release_id: As of `StepRelease`, and so are those that follow.
        epoch: See there.
        product: See there.
        view: See there.
        step: See there.
        start_us: See there.
        end_us: See there.
        n_steps_left: See there.
        epsilon: See there.
        delta: See there.
        indicators: The indicators of the time that the step is about.
    """

    json_ending: ClassVar[str] = ".json"
    has_log: ClassVar[bool] = False

    release_id: str
    epoch: str
    product: str
    view: View
    step: int
    start_us: int
    end_us: int
    n_steps_left: int
    epsilon: str
    delta: str
    indicators: ReleasedIndicators

    @property
    def key(self) -> tuple[str, str, str, str, int]:
        """As of `Step`."""
        return self.release_id, self.epoch, self.product, self.view, self.step

    def __eq__(self, other: object) -> bool:
        return isinstance(other, StepIndicators) and self.to_json() == other.to_json()

    __hash__ = None  # type: ignore[assignment]  # holds arrays

    def to_json(self) -> bytes:
        """As of `Step`."""
        body: dict[str, Any] = {name: getattr(self, name) for name in STEP_FIELDS}
        body |= self.indicators.to_json()
        return json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()

    @classmethod
    def from_json(cls, data: bytes) -> StepIndicators:
        """Returns the step that `to_json` wrote.

        Raises:
            UsageError: It is none.
        """
        try:
            body = bounded_json(data)
            rows = {"indicators": body.pop("indicators")}
            return cls(**body, indicators=ReleasedIndicators.from_json(rows))
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise UsageError(f"this is no step of indicators ({type(error).__name__})") from None

    def to_kept(self) -> bytes:
        """As of `Step`: the JSON, which has all that is published."""
        return self.to_json()

    @classmethod
    def from_kept(cls, data: bytes) -> StepIndicators:
        """As of `Step`."""
        return cls.from_json(data)

    def in_form_of(self, kept: StepIndicators) -> StepIndicators:
        """As of `Step`: there is one form."""
        return self

    def to_rows(self) -> pa.Table:
        """Returns a row for each number, with what they have in common as columns."""
        return with_facts(self.indicators.to_table(), self)
