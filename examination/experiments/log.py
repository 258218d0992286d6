"""A log of an experiment: what releases are made of and compared with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from tracecloak.examination.comparison.original import Original
from tracecloak.examination.measure.quality import NormalBehaviour


@dataclass(frozen=True)
class Log(Original):
    """A log that releases are made of and compared with.

    Attributes:
        read_seconds: How long it took to read.
        columns: Source columns of the attributes that were read with it, by name.
    """

    read_seconds: float = 0.0
    columns: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def normal(self) -> NormalBehaviour:
        """What distinguishes its normal traces from others."""
        return NormalBehaviour(self.variants)
