"""A paper's evaluation as a table: settings, measures of a release, statements of the paper.

`papers/NAME.toml` says which methods and flags there are, what is shown of the rows, and what the
paper states of its results. A subclass of `Paper` has what cannot be said there: which releases a
setting of the flags makes of a log (`cells`), what is measured of one (`figures`), and sections of
a kind that only one paper has. `examination.experiments.run` runs any of them, `table.py` makes
sections of a page of the rows and judges the statements.

Every figure is exact about private data: for the operator only.
"""

from __future__ import annotations

import json
import tomllib
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from importlib import resources
from typing import Any, ClassVar

import numpy as np

from tracecloak.examination.comparison.contenders import Released
from tracecloak.examination.comparison.original import Original
from tracecloak.examination.comparison.rows import Cell, Row
from tracecloak.examination.experiments.table import (
    THE_LOG,
    THE_PAPER,
    Figures,
    Section,
    Statement,
    judge_statement,
    sections_of,
)
from tracecloak.examination.measure import utility
from tracecloak.examination.measure.behaviour_measures import (
    PERSPECTIVES,
    behavioural_appropriateness,
    bottlenecks,
    data_utility,
    edges_of,
    graph_similarity,
    has_resources,
    projected,
    total_duration_error,
    truly_sampled,
)
from tracecloak.schemas.errors import UsageError
from tracecloak.schemas.events.columns import ColumnMapping
from tracecloak.schemas.events.traces import TraceBatch
from tracecloak.schemas.statistics.background_knowledge import Perspective
from tracecloak.schemas.statistics.variants import VariantHistogram
from tracecloak.transforms.pages.page import from_template


class Paper(ABC):
    """One paper's evaluation.

    Without flags its cells are so few that an hour on two cores does for a log of the paper's size;
    what the paper has beyond is in `Flag.full`.

    Attributes:
        name: As in the command.
        spec: Its TOML file: `title`, `methods`: the registry's names of what is compared, `flags`
            (see `value_of`; `full` is a value with `--full`), `has_models`: whether processes are
            mined, which needs pm4py and scikit-learn, `has_distances`: whether distances of
            variants are measured, which needs POT; `mined`: of so many releases of a cell a process
            is mined, unless told otherwise (of all without it), and `mined_in_full`, with `--full`;
            `of_models`: what is said of a model's quality beside what is said in every evaluation;
            `logs`: what the paper prints of its logs.
        given: Values of the flags by name: see `value_of`.

    Args:
        texts: Texts of the flags, or None, by name.

    Raises:
        UsageError: One is out of range.
    """

    name: ClassVar[str]
    spec: ClassVar[Mapping[str, Any]]

    def __init_subclass__(cls) -> None:
        file = resources.files(__package__) / "papers" / f"{cls.name}.toml"
        cls.spec = tomllib.loads(file.read_text(encoding="utf-8"))

    def __init__(self, texts: Mapping[str, str | None]) -> None:
        self.given: dict[str, Any] = {
            flag["name"]: value_of(flag, texts[flag["name"]]) for flag in self.spec["flags"]
        }

    @abstractmethod
    def cells(self, log: Original) -> Iterator[Cell]:
        """Yields what is run on a log."""

    @abstractmethod
    def figures(self, log: Original, released: Released, cell: Cell) -> Row:
        """Returns what is measured of a release: JSON values by name, None where nothing is.

        The log itself, as if it were a release, is measured too.
        """

    def columns(self, mapping: ColumnMapping) -> Mapping[str, str]:
        """Returns the source columns of the attributes that are read with a log, by name.

        Args:
            mapping: What the log's columns mean.
        """
        return {}

    def log_cell(self) -> Cell:
        """Returns the cell that stands for the log itself."""
        return Cell(THE_LOG, "", "", "", is_mined=self.spec["has_models"], is_drawn=False)

    def notes(self) -> Sequence[str]:
        """Returns paragraphs on what was run and how it differs from the paper."""
        template = f"papers/{self.name}.md.j2"
        return [line for line in from_template(__package__, template, **self.words()) if line]

    def words(self) -> Mapping[str, Any]:
        """Returns what the notes print, and what `each` of sections and statements may name."""
        return self.given

    def printed(self, log: Original) -> Mapping[str, Any]:
        """Returns what the paper prints of a log of these sizes; nothing if it has no such log."""
        sizes = log.identity()
        for printed in self.spec.get("logs", ()):
            if all(sizes[n] == printed.get(n, sizes[n]) for n in ("cases", "events", "variants")):
                return printed
        return {}

    def table(self, log: Original, rows: Sequence[Row], log_row: Row) -> Figures:
        """Returns the figures of a log, with its parameters and with what the paper prints of it.

        Args:
            log: The log.
            rows: Its rows, those of a cell in the order of the repetitions; some can be missing.
            log_row: The row of the log itself.
        """
        printed = {**self.printed(log), "arm": THE_PAPER, "level": ""}
        levels = [cell.level for cell in self.cells(log) if cell.level]
        own = {**log_row, "arm": THE_LOG, "level": ""}
        known = [{**json.loads(row.get("params", "{}")), **row} for row in rows]
        return Figures([own, printed, *known], list(dict.fromkeys(levels)), self.spec)

    def sections(self, log: Original, table: Figures) -> Iterator[Section]:
        """Yields the page's sections on a log."""
        for spec in self.spec["sections"]:
            if "by" in spec:
                yield getattr(self, spec["by"])(log, table, spec)
            else:
                yield from sections_of(spec, table, self.words())

    def statements(self, table: Figures) -> Iterator[Statement]:
        """Yields what the paper states of its results, and whether the figures of a log agree."""
        for spec in self.spec["statements"]:
            yield judge_statement(spec, table, self.words())


def value_of(flag: Mapping[str, Any], text: str | None) -> Any:
    """Returns what a flag's text means.

    Args:
        flag: `among`: names to choose from; `above` and `most`: bounds of numbers; `is_whole`:
            they are; `is_single`: there is one; `is_repeated`: one may come twice. With none of
            these the value is the text.
        text: As it was given, or None: the default, if there is one.

    Raises:
        UsageError: It is not as the flag says.
    """
    name, text = flag["name"], text if text is not None else flag.get("default")
    if text is None or not flag.keys() & {"among", "most"}:
        return text
    parts = tuple(part.strip() for part in text.split(",") if part.strip())
    is_single, values = flag.get("is_single", False), parts
    if "among" in flag:
        meant = f"{'one' if is_single else 'some'} of {', '.join(flag['among'])}"
        values = tuple(one for one in flag["among"] if one in parts)
        is_right = len(values) == len(parts)
    else:
        low, high = flag["above"], flag["most"]
        kind = "whole numbers" if flag.get("is_whole") else "numbers"
        meant = f"{kind} above {low:g} and at most {high:g}"
        try:
            is_right = all(low < float(one) <= high for one in parts)
        except ValueError:
            is_right = False
        if flag.get("is_whole"):
            is_right &= all(one.isdecimal() for one in parts)
            values = tuple(map(int, parts)) if is_right else ()
    is_distinct = len({*parts}) == len(parts) or flag.get("is_repeated")
    if not (parts and is_right and is_distinct) or (is_single and len(parts) > 1):
        how = "one only" if is_single else "distinct and separated by commas"
        raise UsageError(f"{name} must be {meant}, {how}, got {text!r}")
    return values[0] if is_single else values


# --- What is measured of a release that has cases, in all perspectives ----------------------------


def perspectives_of(log: Original) -> tuple[Perspective, ...]:
    """Returns the perspectives that a log has: without resources just the one on activities."""
    return PERSPECTIVES if has_resources(log.traces) else PERSPECTIVES[:1]


def figures_of(log: Original, released: Released) -> Row:
    """Returns sizes, times and, for each perspective, what became of behaviour.

    A perspective that the log or the release lacks has None.

    Args:
        log: The log.
        released: A release of it that has cases.
    """
    assert released.traces is not None
    before, after = log.traces.recode(log.vocabulary), released.traces
    row: Row = {
        "released_cases": after.n_cases,
        "released_events": after.n_events,
        "released_variants": released.variants.n_variants,
        "cases_kept": after.n_cases / before.n_cases,
        "events_kept": after.n_events / before.n_events,
        "duration_error": total_duration_error(before, after),
        **{f"bottlenecks_{name}": value for name, value in bottlenecks(before, after).items()},
    }
    row |= (activities := _projected(before, after, "activity"))
    is_there = has_resources(before) and has_resources(after)
    for perspective in PERSPECTIVES[1:]:
        figures = _projected(before, after, perspective) if is_there else dict.fromkeys(activities)
        row |= {f"{perspective}_{name}": value for name, value in figures.items()}
    return row


def _projected(log: TraceBatch, release: TraceBatch, perspective: Perspective) -> dict[str, Any]:
    """What is measured of every perspective, on the log that is projected on it."""
    before, after = projected([log, release], perspective)
    graph = graph_similarity(edges_of(before), edges_of(after), np.unique(before.activities))
    variants = [VariantHistogram.from_traces(side) for side in (before, after)]
    return {
        "distinct_elements": len(np.unique(after.activities)),
        "distinct_variants": variants[1].n_variants,
        "variants_a_case": variants[1].n_variants / max(after.n_cases, 1),
        "data_utility": data_utility(before, after),
        "total_variation": utility.variant_distance(*variants),
        "appropriateness": behavioural_appropriateness(before, after),
        **{f"graph_{name}": value for name, value in graph.items()},
        **{f"sampled_{name}": value for name, value in truly_sampled(before, after).items()},
    }
