"""`tracecloak experiment sacofa-sapa`: the evaluation of the SaCoFa and SaPa paper, on given logs.

Fahrenkrog-Petersen, Kabierski, van der Aa and Weidlich ("Semantics-aware Mechanisms for
Control-flow Anonymization in Process Mining", 2023), section 5: the parameters of Table 4, ten
repetitions, and Figures 2 to 10.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np

from tracecloak.examination.comparison.compare import Row
from tracecloak.examination.experiments.figures import shown
from tracecloak.examination.experiments.grids import (
    Boxes,
    Cell,
    Flag,
    Grid,
    Released,
    Section,
    Table,
    Tree,
    boxes_of,
    numbers,
    table_of,
    wholes,
)
from tracecloak.examination.experiments.log import Log
from tracecloak.examination.experiments.statements import (
    Statement,
    at_least,
    judged,
    medians,
)
from tracecloak.examination.measure.quality import sequence_entropy
from tracecloak.schemas.errors import UsageError

_SACOFA, _LAPLACE, _SAPA, _DF_LAPLACE = "SaCoFa", "Laplace", "SaPa", "DF-Laplace"
_PRUNED = "SaCoFa, two thresholds"
_MAIN = (_SACOFA, _LAPLACE, _SAPA, _DF_LAPLACE)
# Without an entry of Table 4: prefixes as long as this share of the variants at most, within the 80
# to 90 % of the paper; and of two thresholds the lower is this share of the higher.
_LENGTH_SHARE = 0.85
_HARMLESS_SHARE = Fraction(3, 4)


@dataclass(frozen=True)
class _Setting:
    """A row of Table 4 for one log: k, and (p_harmful, p_harmless) by epsilon."""

    max_prefix_length: int
    thresholds: Mapping[Fraction, tuple[int, int | None]]


def _setting(length: int, *thresholds: tuple[int, int | None]) -> _Setting:
    epsilons = (Fraction(1), Fraction(1, 10), Fraction(1, 100))
    return _Setting(length, dict(zip(epsilons, thresholds, strict=True)))


# Table 4, by the numbers of events, cases and variants in Table 3.
_TABLE_4 = {
    (8_577, 1_434, 116): _setting(10, (3, None), (25, 22), (220, 200)),
    (15_214, 1_050, 846): _setting(23, (4, None), (20, 15), (190, 150)),
    (561_470, 150_370, 231): _setting(9, (2, None), (20, 15), (150, 120)),
}


class SacofaSapa(Grid):
    """The experiment; see the module.

    Args:
        flags: Texts by name: `epsilons`, `k_follows`, `max_prefix_length`, `p_harmful` and
            `p_harmless`, each None where it was not given.

    Raises:
        UsageError: One is out of range.
    """

    name: ClassVar[str] = "sacofa-sapa"
    title: ClassVar[str] = "SaCoFa and SaPa beside the Laplace queries"
    methods: ClassVar[tuple[str, ...]] = ("laplace-variants", "sacofa", "sapa")
    has_models: ClassVar[bool] = True
    mined_repetitions: ClassVar[int | None] = 5  # a model of Sepsis takes half a minute to judge
    flags: ClassVar[tuple[Flag, ...]] = (
        Flag("epsilons", "of each level or pair, as published (default 1,0.1,0.01)"),
        Flag("k_follows", "thresholds of SaPa, the first one in all charts (default 1,5)",
             full="1,2,3,4,5"),
        Flag("max_prefix_length", "levels of prefixes (default: Table 4, or what 85 % of the "
             "variants do not exceed)"),
        Flag("p_harmful", "pruning threshold in cases, one for all epsilons or one each (default: "
             "Table 4, or 2 / epsilon)"),
        Flag("p_harmless", "the lower threshold of SaCoFa with two, one for all epsilons or one "
             "each (default: Table 4, or three quarters of p_harmful)"),
    )  # fmt: skip

    def __init__(self, flags: Mapping[str, str | None]) -> None:
        self._epsilons = numbers("epsilons", flags["epsilons"], ("1", "0.1", "0.01"), 0, 100)
        self._k_follows = wholes("k_follows", flags["k_follows"], ("1", "5"), 10_000)
        lengths = wholes("max_prefix_length", flags["max_prefix_length"] or "1", (), 1000)
        if len(lengths) > 1:
            raise UsageError(f"max_prefix_length must be one number, got {len(lengths)}")
        self._length = lengths[0] if flags["max_prefix_length"] else None
        self._harmful = self._thresholds("p_harmful", flags["p_harmful"])
        self._harmless = self._thresholds("p_harmless", flags["p_harmless"])

    def _thresholds(self, name: str, text: str | None) -> tuple[int, ...] | None:
        if text is None:
            return None
        lists = [wholes(name, one, ()) for one in text.split(",")]
        if len(lists) not in (1, len(self._epsilons)):
            raise UsageError(
                f"{name} must be one number, or one for each of the {len(self._epsilons)} epsilons,"
                f" got {len(lists)}"
            )
        return tuple(one[0] for one in lists) * (len(self._epsilons) // len(lists))

    def length(self, log: Log) -> int:
        """Returns the levels of prefixes for a log."""
        if self._length is not None:
            return self._length
        known = _TABLE_4.get(_sizes(log))
        if known is not None:
            return known.max_prefix_length
        lengths = np.diff(log.variants.offsets)
        return int(np.quantile(lengths, _LENGTH_SHARE, method="inverted_cdf"))

    def thresholds(self, log: Log, epsilon: str) -> tuple[int, int | None]:
        """Returns (p_harmful, p_harmless); no second one where the paper has none.

        Raises:
            UsageError: The second is higher.
        """
        value, place = Fraction(epsilon), self._epsilons.index(epsilon)
        known = _TABLE_4.get(_sizes(log))
        harmless: int | None
        if self._harmful is None and known is not None and value in known.thresholds:
            harmful, harmless = known.thresholds[value]
        else:
            harmful = math.ceil(2 / value) if self._harmful is None else self._harmful[place]
            harmless = math.ceil(harmful * _HARMLESS_SHARE) if value < 1 else None
        if self._harmless is not None:
            harmless = self._harmless[place]
        if harmless is not None and harmless > harmful:
            raise UsageError(
                f"p_harmless must be at most p_harmful, got {harmless} and {harmful} at epsilon "
                f"{epsilon}"
            )
        return harmful, harmless

    def cells(self, log: Log) -> Iterator[Cell]:
        """Yields the settings of Table 4."""
        length = self.length(log)

        def cell(arm: str, epsilon: str, method: str, **params: object) -> Cell:
            return Cell(
                arm, epsilon, epsilon, method, {"epsilon": epsilon, **params}, is_mined=True
            )

        for epsilon in self._epsilons:
            harmful, harmless = self.thresholds(log, epsilon)
            levels = {"max_prefix_length": length, "p_harmful": harmful}
            yield cell(_SACOFA, epsilon, "sacofa", **levels)
            yield cell(_LAPLACE, epsilon, "laplace-variants", **levels)
            for k in self._k_follows:
                yield cell(self._sapa(k), epsilon, "sapa", k_follows=k)
            yield cell(_DF_LAPLACE, epsilon, "sapa", query="laplace")
            if harmless is not None:
                yield cell(_PRUNED, epsilon, "sacofa", **levels, p_harmless=harmless)

    def _sapa(self, k: int) -> str:
        return _SAPA if k == self._k_follows[0] else f"{_SAPA}, k = {k}"

    def figures(self, log: Log, released: Released, cell: Cell) -> Row:
        """Returns sizes, entropy and the share of normal traces; models are judged elsewhere."""
        variants = released.variants
        return {
            "released_cases": variants.n_cases,
            "released_variants": variants.n_variants,
            "relative_size": variants.n_cases / log.traces.n_cases,
            "sequence_entropy": sequence_entropy(variants) if variants.n_variants else None,
            "normal_share": log.normal.share(variants),
        }

    def sections(self, log: Log, rows: Sequence[Row], log_row: Row) -> Iterator[Section]:
        """Yields Table 4 as it was used, and Figures 2 to 10."""
        levels = self._epsilons
        text = ""
        if _sizes(log) not in _TABLE_4:
            text = (
                f"Not a log of the paper. Unless a flag says otherwise, k is what "
                f"{_LENGTH_SHARE:.0%} of the variants do not exceed, and p_harmful is 2 / epsilon."
            )
        yield Section("Parameters (Table 4)", text, [self._parameters(log)], "table-4")
        yield self._boxed("Figure 2: F-score of mined models", "f_score", "F-score", rows, log_row)
        trees = [
            (arm, row["tree"])
            for arm in (_LAPLACE, _SACOFA)
            for row in rows
            if row["arm"] == arm and row["level"] == self._strongest and row.get("tree")
        ]
        models = dict(reversed(trees))  # of the first repetition
        for arm in sorted(models):
            yield Section(
                f"Figure 3: model mined from {arm} at epsilon {self._strongest}",
                "Of the first repetition.",
                [Tree(models[arm])],
                f"figure-3-{arm.lower()}",
            )
        yield self._boxed(
            "Figure 4: generalisation of mined models", "generalization", "generalisation", rows,
            log_row
        )  # fmt: skip
        yield self._boxed(
            "Figure 5: complexity", "sequence_entropy", "normalised sequence entropy", rows, log_row
        )
        sizes = "released cases / cases of the log"
        yield self._boxed(
            "Figure 6: relative size", "relative_size", sizes, rows, log_row,
            (_SACOFA, _SAPA, _DF_LAPLACE),
        )  # fmt: skip
        yield self._boxed(
            "Figure 7: relative size of the Laplace query", "relative_size", sizes, rows, log_row,
            (_LAPLACE,), is_log=True,
        )  # fmt: skip
        yield self._boxed(
            "Figure 8: traces that look normal",
            "normal_share",
            "share of normal traces",
            rows,
            log_row,
        )
        yield self._boxed(
            "Figure 9: SaCoFa with one threshold and with two", "f_score", "F-score", rows, log_row,
            (_SACOFA, _PRUNED),
        )  # fmt: skip
        yield self._boxed(
            "Figure 10: thresholds of SaPa", "f_score", "F-score", rows, log_row,
            tuple(map(self._sapa, self._k_follows)),
        )  # fmt: skip
        others = (("fitness", "fitness"), ("precision", "precision"), ("seconds", "seconds"))
        arms = tuple(dict.fromkeys(row["arm"] for row in rows))
        for name, title in others:
            yield Section(
                f"Beside the paper: {title}",
                "From counted cases to released variants." if name == "seconds" else "",
                [table_of(rows, name, "epsilon", arms, levels)],
                title,
            )

    def statements(self, log: Log, rows: Sequence[Row], log_row: Row) -> Iterator[Statement]:
        """Yields what section 5.3 states, by medians at each epsilon."""
        f_score, normal = medians(rows, "f_score"), medians(rows, "normal_share")
        size = medians(rows, "relative_size")
        entropy, general = medians(rows, "sequence_entropy"), medians(rows, "generalization")

        def pairs(
            median: Callable[[str, str], float | None], first: str, others: Sequence[str]
        ) -> list[tuple[str, float | None, float | None]]:
            return [
                (f"{other} at {epsilon}", median(first, epsilon), median(other, epsilon))
                for other in others
                for epsilon in self._epsilons
            ]

        slack = 0.02
        yield at_least(
            "section 5.3, Figure 2", "SaCoFa has the highest F-score at every epsilon",
            pairs(f_score, _SACOFA, (_LAPLACE, _SAPA, _DF_LAPLACE)), slack,
        )  # fmt: skip
        yield at_least(
            "section 5.3, Figure 2", "SaPa has a slightly higher F-score than DF-Laplace",
            pairs(f_score, _SAPA, (_DF_LAPLACE,)), slack,
        )  # fmt: skip
        yield at_least(
            "section 5.3, Figure 4", "models of SaCoFa are more general than those of the others",
            pairs(general, _SACOFA, (_LAPLACE, _SAPA, _DF_LAPLACE)), slack,
        )  # fmt: skip
        yield at_least(
            "section 5.3, Figure 5", "results of SaCoFa are less complex than those of Laplace",
            [(e, entropy(_LAPLACE, e), entropy(_SACOFA, e)) for e in self._epsilons], slack,
        )  # fmt: skip
        yield at_least(
            "section 5.3, Figure 5",
            "methods by variants lead to less complex logs than those by directly-follows pairs",
            [
                (f"{of_pairs} against {arm} at {e}", entropy(of_pairs, e), entropy(arm, e))
                for of_pairs in (_SAPA, _DF_LAPLACE)
                for arm in (_SACOFA, _LAPLACE)
                for e in self._epsilons
            ],
            slack,
        )
        yield at_least(
            "section 5.3, Figure 5", "results of SaCoFa are less complex than the log",
            [(e, log_row.get("sequence_entropy"), entropy(_SACOFA, e)) for e in self._epsilons],
        )  # fmt: skip
        sizes = [(f"{arm} at {e}", size(arm, e)) for arm in (_SAPA, _DF_LAPLACE)
                 for e in self._epsilons]  # fmt: skip
        yield _near_one(
            "section 5.3, Figure 6",
            "SaPa and DF-Laplace release about as many cases as the log has (within 10 %), but for "
            "SaPa on Sepsis",
            sizes,
        )
        is_strong = Fraction(self._strongest) <= Fraction(1, 100)
        yield at_least(
            "section 5.3, Figure 7",
            "Laplace releases many times the log's cases at epsilon 0.01 (here: five times or "
            "more; the paper has more than 200 times)",
            [(self._strongest, size(_LAPLACE, self._strongest), 5.0)] if is_strong else [],
        )
        yield at_least(
            "section 5.3, Figure 8", "SaCoFa and SaPa have more normal traces than Laplace",
            [
                (f"{arm} at {e}", normal(arm, e), normal(_LAPLACE, e))
                for arm in (_SACOFA, _SAPA)
                for e in self._epsilons
            ],
            slack,
        )  # fmt: skip
        first, last = self._sapa(self._k_follows[0]), self._sapa(self._k_follows[-1])
        ends = [(e, f_score(first, e), f_score(last, e)) for e in self._epsilons]
        known = [(e, a, b) for e, a, b in ends if a is not None and b is not None and first != last]
        signs = {np.sign(round(a - b, 2)) for _, a, b in known}
        yield judged(
            "section 5.3, Figure 10",
            "no general trend is seen in the thresholds of SaPa",
            [signs not in ({1.0}, {-1.0}) if 2 <= len(known) == len(ends) else None],
            "; ".join(f"at {e}: {shown(a)} and {shown(b)}" for e, a, b in known),
        )

    @property
    def _strongest(self) -> str:
        return min(self._epsilons, key=Fraction)

    def _parameters(self, log: Log) -> Table:
        rows = []
        for epsilon in self._epsilons:
            harmful, harmless = self.thresholds(log, epsilon)
            second = "/" if harmless is None else str(harmless)
            rows.append((epsilon, str(self.length(log)), str(harmful), second))
        return Table(("epsilon", "k", "p_harmful", "p_harmless"), rows)

    def _boxed(
        self,
        title: str,
        name: str,
        y: str,
        rows: Sequence[Row],
        log_row: Row,
        arms: Sequence[str] = _MAIN,
        is_log: bool = False,
    ) -> Section:
        chart: Boxes = boxes_of(
            rows, name, arms, self._epsilons, y, "epsilon", line=log_row.get(name), is_log=is_log
        )
        parts = [chart] if chart.values else []
        number = title.split(":")[0].lower().replace(" ", "-")
        return Section(
            title, "", [*parts, table_of(rows, name, "epsilon", arms, self._epsilons)], number
        )


def _near_one(source: str, text: str, places: Sequence[tuple[str, float | None]]) -> Statement:
    """Whether each figure is within a tenth of 1."""
    holds = [None if value is None else abs(value - 1) <= 0.1 for _, value in places]
    figures = (f"{place} {shown(value)}" for place, value in places if value is not None)
    return judged(source, text, holds, ", ".join(figures))


def _sizes(log: Log) -> tuple[int, int, int]:
    return log.traces.n_events, log.traces.n_cases, log.variants.n_variants
