"""`tracecloak compare`: methods that release variants, at the same true epsilon, on given logs.

Every method gets the same epsilon for all that it releases, per case added or removed, the same
delta if it needs one, and the same public facts: the activities, and a length at which cases are
cut. For the comparison both are read from the log, which a release must not do. Releases are made
in memory under fresh keys and measured against the whole log. The figures are exact about private
data: for the operator only.
"""

from __future__ import annotations

import hashlib
import json
import logging
import math
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pydantic

from tracecloak.anonymizers.contract.in_memory import bound
from tracecloak.anonymizers.contract.method import Anonymizer
from tracecloak.anonymizers.contract.wrong_values import usage_error
from tracecloak.anonymizers.noise.randomness import Randomness, ReleaseKey
from tracecloak.anonymizers.registry import METHODS
from tracecloak.pipelines.experiments.compare_log import Original
from tracecloak.pipelines.measure import measures
from tracecloak.pipelines.measure.mining import ModelQuality, require_pm4py
from tracecloak.schemas.errors import UsageError
from tracecloak.schemas.published.manifest import TOOL_VERSION
from tracecloak.schemas.published.variants import ReleasedVariants

_LOG = logging.getLogger("tracecloak")
DEFAULT_EPSILONS = ("0.1", "0.5", "1", "2", "4")
DEFAULT_DELTA = "1e-6"
DEFAULT_REPETITIONS = 20
# Mining takes seconds a release, hundreds of times what the other figures take.
DEFAULT_MINED = 3
_PUBLIC = {"epsilon", "delta", "vocabulary", "max_trace_length"}

# What a row is known by: where these agree, it is not computed again.
_IDENTITY = (
    "version", "log", "cases", "events", "variants", "max_length", "method", "epsilon", "delta",
    "repetition",
)  # fmt: skip

# A row is a repetition: what it is known by, and figures (null where one does not apply).
Row = dict[str, Any]


def candidates() -> dict[str, Anonymizer]:
    """Returns the methods that can be compared, by name.

    They release variants, promise a finite epsilon, and spend all of it on the variants if the
    activities and a length are public. `laplace-levels`, the published query that pays for its
    levels, is among them.
    """
    return {name: method for name, method in sorted(METHODS.items()) if _is_comparable(method)}


def _is_comparable(method: Anonymizer) -> bool:
    if not set(method.Params.model_fields) >= _PUBLIC:
        return False
    try:
        params = parameters(method, "1", DEFAULT_DELTA, ("A",), 1)
    except UsageError:  # it needs to be told something else
        return False
    return (
        method.rounds(params) == ("variants",)
        and "variants" in method.writes(params)
        and method.guarantee(params).epsilon is not None
    )


def chosen_methods(names: Sequence[str] | None) -> dict[str, Anonymizer]:
    """Returns the methods of these names, or all.

    Raises:
        UsageError: One cannot be compared.
    """
    known = candidates()
    for name in names or ():
        if name not in known:
            raise UsageError(f"methods must be of {', '.join(known)}, got {name!r}")
    return known if names is None else {name: known[name] for name in names}


def parameters(
    method: Anonymizer, epsilon: str, delta: str, names: Sequence[str], max_length: int
) -> Any:
    """Returns a method's parameters; without a delta for one whose example needs none.

    Raises:
        UsageError: Epsilon or delta is out of range.
    """
    is_pure = method.examples[0].get("delta") == "0"
    given: dict[str, Any] = {
        "epsilon": epsilon,
        "delta": "0" if is_pure else delta,
        "vocabulary": tuple(names),
        "max_trace_length": max_length,
    }
    try:
        return method.Params(**given)
    except pydantic.ValidationError as error:
        raise usage_error(error) from None


class _Cell:
    """One method on one log at one epsilon: counted once, released often."""

    def __init__(self, original: Original, method: Anonymizer, params: Any) -> None:
        self._method, self._params = method, params
        method.spends(params)  # or is refused before anything is counted
        units = _fresh().of_units
        [bounded] = bound([original.traces], method, params, _fresh())
        self._statistics = {
            name: counter.count(bounded, {}, units)
            for name, counter in method.requires("variants", params).items()
        }

    def release(self) -> ReleasedVariants:
        """Returns the variants of one release, under a key of its own."""
        decisions = {
            "variants": self._method.decide(
                "variants", self._statistics, {}, self._params, _fresh()
            )
        }
        released: ReleasedVariants = self._method.products(decisions, self._params).by_name[
            "variants"
        ]
        return released


def _fresh() -> Randomness:
    return Randomness(ReleaseKey.generate(), "comparison", "", "")


@dataclass(frozen=True)
class Comparison:
    """What is compared with what.

    Attributes:
        originals: The logs, of distinct names.
        methods: The methods by name.
        epsilons: As texts.
        delta: As text; methods that need none spend none.
        repetitions: Releases of each method on each log at each epsilon.
        mined: Of so many of them a process is mined.

    Raises:
        UsageError: One of them is out of range, a name comes twice, or pm4py is needed and is not
            installed.
    """

    originals: tuple[Original, ...]
    methods: Mapping[str, Anonymizer]
    epsilons: tuple[str, ...] = DEFAULT_EPSILONS
    delta: str = DEFAULT_DELTA
    repetitions: int = DEFAULT_REPETITIONS
    mined: int = 0

    def __post_init__(self) -> None:
        if self.repetitions < 1:
            raise UsageError(f"repetitions must be at least 1, got {self.repetitions}")
        if self.mined < 0:
            raise UsageError(f"mine must be at least 0, got {self.mined}")
        names = [original.name for original in self.originals]
        for what, given in (("input", names), ("epsilon", self.epsilons)):
            twice = sorted({one for one in given if given.count(one) > 1})
            if twice:
                raise UsageError(f"{what} {twice[0]!r} is there twice: leave one out, or rename it")
        for method in self.methods.values():
            for epsilon in self.epsilons:
                parameters(method, epsilon, self.delta, ("A",), 1)
        measures.require_pot()
        if self.mined:
            require_pm4py()

    def rows(self, known: Iterable[Row] = ()) -> Iterator[tuple[Row, bool]]:
        """Yields every row, and whether it was computed now or is one of those known.

        A row whose method refuses its parameters has `refused` in place of figures: the reason.
        """
        found = {_key(row): row for row in known}
        version = code_version()
        n_cells = len(self.originals) * len(self.methods) * len(self.epsilons)
        number = 0
        for original in self.originals:
            for name, method in self.methods.items():
                for epsilon in self.epsilons:
                    number += 1
                    params = parameters(
                        method, epsilon, self.delta, original.names, original.max_length
                    )
                    head = {
                        "version": version,
                        **original.identity(),
                        "method": name,
                        "epsilon": epsilon,
                        "delta": self.delta if params.delta else "0",
                    }
                    _LOG.info(
                        "compare: %s, %s, epsilon %s (%d of %d)",
                        original.name, name, epsilon, number, n_cells,
                    )  # fmt: skip
                    yield from self._of_cell(original, method, params, head, found)

    def _of_cell(
        self,
        original: Original,
        method: Anonymizer,
        params: Any,
        head: Row,
        found: Mapping[tuple[Any, ...], Row],
    ) -> Iterator[tuple[Row, bool]]:
        cell = None
        for repetition in range(self.repetitions):
            own = {**head, "repetition": repetition}
            is_mined = repetition < self.mined
            before = found.get(_key(own))
            if before is not None and ("refused" in before or is_mined <= before["is_mined"]):
                yield before, False
                if "refused" in before:
                    return
                continue
            try:
                cell = cell or _Cell(original, method, params)
                begun = time.perf_counter()
                released = cell.release()
                seconds = time.perf_counter() - begun
            except UsageError as error:
                yield {**own, "refused": str(error)}, True
                return
            variants = original.recoded(released)
            quality = None
            if is_mined:
                quality = original.process.of(variants, original.vocabulary)
            yield (
                {
                    **own,
                    **original.figures(variants),
                    "seconds": seconds,
                    "is_mined": is_mined,
                    **quality_figures(quality),
                },
                True,
            )


def quality_figures(quality: ModelQuality | None) -> dict[str, float | None]:
    """Returns a mined model's figures; null without a model."""
    if quality is None:
        return dict.fromkeys(("fitness", "precision", "f_score"))
    return {
        "fitness": quality.fitness,
        "precision": quality.precision,
        "f_score": quality.f_score,
    }


def code_version() -> str:
    """Returns the version of tracecloak and a digest of the code that figures depend on.

    So no figure of a method that was changed since is taken for one of the method as it is.
    """
    root = Path(__file__).parents[2]
    places = ("schemas", "anonymizers", "pipelines/experiments", "pipelines/measure")
    files = sorted(path for place in places for path in (root / place).rglob("*.py"))
    digest = hashlib.sha256()
    for path in files:
        digest.update(hashlib.sha256(path.read_bytes()).digest())
    return f"{TOOL_VERSION} {digest.hexdigest()[:16]}"


def _key(row: Row) -> tuple[Any, ...]:
    return tuple(row[name] for name in _IDENTITY)


def read_rows(path: Path) -> list[Row]:
    """Reads rows that were written before; a last line that was cut off is passed over.

    Raises:
        UsageError: The file is not one of rows.
    """
    if not path.exists():
        return []
    lines = path.read_text(encoding="utf-8").split("\n")
    rows = []
    for number, line in enumerate(lines[:-1], 1):  # what follows the last line end is no line
        try:
            row = json.loads(line)
            _key(row)
        except (ValueError, KeyError, TypeError):
            raise UsageError(
                f"line {number} of {path.name} is no row of a comparison: move the file away"
            ) from None
        rows.append(row)
    return rows


class Rows(Protocol):
    """What computes rows, and does not compute one again that is known."""

    def rows(self, known: Iterable[Row] = ()) -> Iterator[tuple[Row, bool]]:
        """Yields all rows, and whether each is new."""
        ...


def run(comparison: Rows, path: Path) -> list[Row]:
    """Computes what a file of rows lacks, adds each row as it comes, and returns all of them.

    Args:
        comparison: What is compared.
        path: JSON lines. Rows of other comparisons stay in it.
    """
    known = read_rows(path)
    if known or path.exists():  # without what was cut off
        path.write_text("".join(json.dumps(row) + "\n" for row in known), encoding="utf-8")
    rows = []
    with path.open("a", encoding="utf-8") as stream:
        for row, is_new in comparison.rows(known):
            if is_new:
                stream.write(json.dumps(row) + "\n")
                stream.flush()
            rows.append(row)
    return rows


def quartiles(values: Iterable[float | None]) -> tuple[float, float, float] | None:
    """Returns (median, first quartile, third quartile) of what is known; None of nothing."""
    known = [value for value in values if value is not None and not math.isnan(value)]
    if not known:
        return None
    low, middle, high = np.quantile(known, (0.25, 0.5, 0.75)).tolist()
    return middle, low, high
