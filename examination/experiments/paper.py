"""A paper's evaluation as a table: settings of a log, measures of a release, statements of the paper.

`papers/NAME.toml` says which methods and flags there are, what is shown of the rows, and what the
paper states of its results. A subclass of `Paper` has what cannot be said there: which releases a
setting of the flags makes of a log (`cells`), what is measured of one (`figures`), and sections of
a kind that only one paper has. `examination.experiments.run` runs any of them, `shown.py` makes
sections of a page of the rows, `statements.py` judges the statements.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from importlib import resources
from typing import Any, ClassVar

from tracecloak.examination.comparison.compare import Row
from tracecloak.examination.experiments.grids import Flag, Grid, Section
from tracecloak.examination.experiments.log import Log
from tracecloak.examination.experiments.shown import sections_of
from tracecloak.examination.experiments.statements import Statement, stated
from tracecloak.examination.experiments.table import THE_LOG, THE_PAPER, Figures
from tracecloak.schemas.errors import UsageError


class Paper(Grid):
    """One paper's evaluation.

    Attributes:
        spec: Its TOML file.
        flags: Values of the flags by name: a text, or a tuple of what stands between commas; None
            where nothing was given and there is no default.

    Args:
        texts: Texts of the flags, or None, by name.

    Raises:
        UsageError: One is out of range.
    """

    spec: ClassVar[Mapping[str, Any]]

    def __init_subclass__(cls) -> None:
        file = resources.files(__package__) / "papers" / f"{cls.name}.toml"
        cls.spec = spec = tomllib.loads(file.read_text(encoding="utf-8"))
        cls.title, cls.methods = spec["title"], tuple(spec["methods"])
        cls.flags = tuple(
            Flag(
                flag["name"],
                flag["meaning"] + (f" (default {flag['default']})" if "default" in flag else ""),
                flag.get("full"),
            )
            for flag in spec["flags"]
        )
        cls.has_models, cls.has_distances = spec["has_models"], spec["has_distances"]
        cls.mined_repetitions, cls.mined_in_full = spec.get("mined"), spec.get("mined_in_full")
        cls.of_models = tuple(spec.get("of_models", ()))

    def __init__(self, texts: Mapping[str, str | None]) -> None:
        self.given: dict[str, Any] = {
            flag["name"]: value_of(flag, texts[flag["name"]]) for flag in self.spec["flags"]
        }

    def words(self) -> Mapping[str, Any]:
        """Returns what the notes print, and what `each` of sections and statements may name."""
        return self.given

    def noted(self) -> Mapping[str, Any]:
        return self.words()

    def printed(self, log: Log) -> Mapping[str, Any]:
        """Returns what the paper prints of a log of these sizes; nothing if it has no such log."""
        sizes = log.identity()
        for printed in self.spec.get("logs", ()):
            if all(sizes[name] == printed.get(name, sizes[name]) for name in _SIZES):
                return printed  # type: ignore[no-any-return]
        return {}

    def table(self, log: Log, rows: Sequence[Row], log_row: Row) -> Figures:
        """Returns the figures of a log, with what the paper prints of it."""
        printed = {**self.printed(log), "arm": THE_PAPER, "level": ""}
        levels = [cell.level for cell in self.cells(log) if cell.level]
        own = {**log_row, "arm": THE_LOG, "level": ""}
        return Figures([own, printed, *rows], list(dict.fromkeys(levels)), self.spec)

    def sections(self, log: Log, rows: Sequence[Row], log_row: Row) -> Iterator[Section]:
        table = self.table(log, rows, log_row)
        for spec in self.spec["sections"]:
            if "by" in spec:
                yield from getattr(self, spec["by"])(log, table, spec)
            else:
                yield from sections_of(spec, table, self.words())

    def statements(self, log: Log, rows: Sequence[Row], log_row: Row) -> Iterator[Statement]:
        table = self.table(log, rows, log_row)
        for spec in self.spec["statements"]:
            yield stated(spec, table, self.words())


_SIZES = ("cases", "events", "variants")


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
    if "among" in flag:
        chosen = tuple(one for one in flag["among"] if one in parts)
        names = ", ".join(flag["among"])
        if flag.get("is_single"):
            if parts != chosen or len(parts) != 1:
                raise UsageError(f"{name} must be one of {names}, got {text!r}")
            return chosen[0]
        if not chosen or len(chosen) != len(parts):
            raise UsageError(
                f"{name} must be some of {names}, each once and separated by commas, got {text!r}"
            )
        return chosen
    low, high = flag["above"], flag["most"]
    for one in parts:
        try:
            is_within = low < float(one) <= high
        except ValueError:
            is_within = False
        if not is_within:
            raise UsageError(f"{name} must be above {low:g} and at most {high:g}, got {one!r}")
        if flag.get("is_whole") and not one.isdecimal():
            raise UsageError(f"{name} must be whole numbers, got {one!r}")
    if not parts or (len(set(parts)) < len(parts) and not flag.get("is_repeated")):
        raise UsageError(f"{name} must be distinct numbers separated by commas, got {text!r}")
    if flag.get("is_single") and len(parts) > 1:
        raise UsageError(f"{name} must be one number, got {len(parts)}")
    values = tuple(map(int, parts)) if flag.get("is_whole") else parts
    return values[0] if flag.get("is_single") else values
