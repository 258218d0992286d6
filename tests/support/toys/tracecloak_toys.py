"""What another distribution adds: products, a format, a source of keys, one of tokens, a command.

`tests/test_one_table_each.py` installs it with one entry point for each, and one for the name of
the product's class on the wire.
"""

from __future__ import annotations

import argparse
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, BinaryIO, ClassVar

import numpy as np
import pyarrow as pa

from tracecloak.plugins import (
    CommandEntry,
    ContinualNoise,
    CountSteps,
    Format,
    Given,
    Mergeable,
    ProductKind,
    RawBatch,
    Reader,
    ReleaseKey,
    Result,
    RetryLater,
    SourceFormat,
    Statistics,
    StepRelease,
    StreamName,
    StreamParams,
    TraceBatch,
    VariantHistogram,
    Writer,
    Yield,
    cell_numbers,
    continual_noise,
    iso_utc,
    require_columns,
    show,
    spent,
)

# --- a product of a release -----------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Sizes:
    """How many variants have how many cases.

    Attributes:
        counts: int64[n], cases of each variant.
    """

    wire_name: ClassVar[str] = "toy-sizes"

    counts: np.ndarray

    def to_table(self) -> pa.Table:
        return pa.table({"cases": self.counts})

    def to_json(self) -> dict[str, Any]:
        return {"cases": self.counts.tolist()}

    @classmethod
    def from_json(cls, body: Any) -> Sizes:
        return cls(np.array(body["cases"], np.int64))

    def came_out(self) -> Yield:
        return Yield(n_cases=int(self.counts.sum()), n_variants=len(self.counts))

    def numbers(
        self, watched: Sequence[tuple[str, ...]] | None = None
    ) -> dict[tuple[str, ...], float]:
        return {("sizes",): float(len(self.counts))}


def forms_of_sizes(product: Sizes, title: str, promise: str) -> dict[str, bytes]:
    return {"txt": f"{title}\n{promise}\n{product.counts.tolist()}\n".encode()}


SIZES = ProductKind("tracecloak_toys:Sizes", "tracecloak_toys:forms_of_sizes")


# --- a product of a stream ------------------------------------------------------------------------


UNITS = 1024  # of one case, under Gaussian noise


class CaseCountParams(StreamParams):
    label: str = "cases"
    """What the one cell is called."""

    def check_product(self) -> None:
        if self.delta == 0:
            raise ValueError("delta 0 is only for product dfg and view window; give a larger one")

    @property
    def n_cells(self) -> int:
        return 1

    @cached_property
    def noises(self) -> Mapping[str, ContinualNoise]:
        epsilon, delta = self.budget
        noise = continual_noise(
            epsilon,
            delta,
            self.horizon,
            UNITS,
            n_cells=1,
            length=1,
            participation=self.participation,
            units=UNITS,
        )
        return {"cases": noise}


class CaseCount(CountSteps):
    """The number of cases that closed in a step."""

    name = "case-count"
    summary = "number of cases"
    Params: ClassVar[type[CaseCountParams]] = CaseCountParams
    views = ("window",)
    params: CaseCountParams
    kinds: ClassVar[Mapping[str, type[Mergeable]]] = {"variants": VariantHistogram}

    def count(self, traces: TraceBatch) -> Statistics:
        return Statistics({"variants": VariantHistogram.from_traces(self.bounded(traces))})

    def publish(
        self, step: int, counted: Statistics, past: Sequence[Any], name: StreamName, key: ReleaseKey
    ) -> tuple[StepRelease, None]:
        noise = self.params.noises["cases"]
        n_cases = np.array([[counted.by_name["variants"].counts.sum() * UNITS]])
        cells = cell_numbers(np.zeros(1, np.int64))
        sums = noise.add(step, n_cases, cells, name.randomness(key), "toy cases") / noise.units
        return StepRelease.of(
            [(self.params.label,)],
            np.rint(sums[0]).astype(np.int64),
            np.full(1, noise.errors(1)[step]),
            **self.common(step, name),
        ), None

    def explain(self) -> tuple[str, ...]:
        return (f"case-count: spends {spent(self.params)}",)


# --- a format -------------------------------------------------------------------------------------


class ToyReader:
    """Lines of fields with bars between them, the first with the names."""

    def column_names(self, stream: BinaryIO) -> list[str]:
        return stream.readline().decode().rstrip("\n").split("|")

    def check(self, found: Sequence[str], required: Collection[str]) -> None:
        require_columns(found, required)

    def read(
        self, stream: BinaryIO, wanted: Sequence[str], required: Collection[str], batch_rows: int
    ) -> Iterator[RawBatch]:
        names = self.column_names(stream)
        rows = [line.decode().rstrip("\n").split("|") for line in stream]
        columns = {name: [row[names.index(name)] for row in rows] for name in wanted}
        none = np.zeros(0, np.int64)
        yield RawBatch(pa.RecordBatch.from_pydict(columns), np.arange(len(rows)), none)


class ToyWriter:
    def __init__(self, stream: BinaryIO, schema: pa.Schema) -> None:
        self._stream = stream
        stream.write(("|".join(schema.names) + "\n").encode())

    def write(self, rows: pa.RecordBatch) -> None:
        case_id, activity, order = rows.columns[:3]
        if pa.types.is_timestamp(order.type):  # else it numbers the events of a log without times
            order = iso_utc(order)
        for row in zip(case_id, activity, order, strict=True):
            self._stream.write(("|".join(map(str, row)) + "\n").encode())

    def close(self) -> None:
        self._stream.flush()


def reader(how: SourceFormat, path: str) -> Reader:
    return ToyReader()


def writer(stream: BinaryIO, schema: pa.Schema, about: Mapping[str, Any] | None) -> Writer:
    return ToyWriter(stream, schema)


TOY = Format((".toy",), "tracecloak_toys:reader", "tracecloak_toys:writer", is_of_releases=True)


# --- a source of keys -----------------------------------------------------------------------------


def vault(name: str) -> str:
    """Stands for a service that is asked for the key of a name."""
    if name == "broken":
        raise ConnectionError(f"the password of {name} is hunter2")
    return f"{name.encode().hex():0<64}\n"


# --- a token of Kafka -----------------------------------------------------------------------------


def badge(servers: str, configuration: str) -> tuple[str, float]:
    """Stands for a service that says who a client is; it ends in the year 2100."""
    if configuration == "broken":
        raise ConnectionError("the password is hunter2")
    if configuration == "away":
        raise RetryLater("the porter is at lunch")
    return f"badge for {servers}", 4_102_444_800.0


# --- a command: this module is it -----------------------------------------------------------------


SHOUT = CommandEntry("tracecloak_toys", "repeat a word loudly")


def add_flags(parser: argparse.ArgumentParser, argv: Sequence[str], config: str | None) -> None:
    parser.add_argument("word", metavar="WORD", help="what to repeat")
    parser.add_argument("--times", type=int, help="how often (default 1)")


def words() -> Sequence[str]:
    return ("triage", "ward")


def run(given: Given) -> int:
    word = given.flags["word"].upper()
    show(Result((), {"word": word}, [word] * given.flags.get("times", 1)), given.form)
    return 0
