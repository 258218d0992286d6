"""`tracecloak experiment sacofa-sapa`: the evaluation of the SaCoFa and SaPa paper, on given logs.

Fahrenkrog-Petersen, Kabierski, van der Aa and Weidlich ("Semantics-aware Mechanisms for
Control-flow Anonymization in Process Mining", 2023), section 5: the parameters of Table 4, ten
repetitions, and Figures 2 to 10, as `papers/sacofa-sapa.toml` has them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np

from tracecloak.examination.comparison.compare import Row
from tracecloak.examination.experiments.networks import Log
from tracecloak.examination.experiments.paper import Cell, Paper, Released
from tracecloak.examination.experiments.table import Figures, Section, Table
from tracecloak.examination.measure.quality import sequence_entropy
from tracecloak.schemas.errors import UsageError

# Without an entry of Table 4: prefixes as long as this share of the variants at most, within the 80
# to 90 % of the paper; and of two thresholds the lower is this share of the higher.
_LENGTH_SHARE = 0.85
_HARMLESS_SHARE = Fraction(3, 4)


class SacofaSapaPaper(Paper):
    """The evaluation; see the module."""

    name: ClassVar[str] = "sacofa-sapa"

    def __init__(self, texts: Mapping[str, str | None]) -> None:
        super().__init__(texts)
        n = len(self.given["epsilons"])
        for name in ("p_harmful", "p_harmless"):
            given = self.given[name]
            if given is not None and len(given) not in (1, n):
                raise UsageError(
                    f"{name} must be one number, or one for each of the {n} epsilons, got "
                    f"{len(given)}"
                )

    def words(self) -> Mapping[str, Any]:
        """Returns what the flags say, and the last threshold of SaPa for a statement."""
        return {**self.given, "last_threshold": self.given["k_follows"][-1:]}

    def length(self, log: Log) -> int:
        """Returns the levels of prefixes for a log."""
        lengths = np.diff(log.variants.offsets)
        common = int(np.quantile(lengths, _LENGTH_SHARE, method="inverted_cdf"))
        return int(
            self.given["max_prefix_length"] or self.printed(log).get("max_prefix_length", common)
        )

    def thresholds(self, log: Log, epsilon: str) -> tuple[int, int | None]:
        """Returns (p_harmful, p_harmless); no second one where the paper has none.

        Raises:
            UsageError: The second is higher.
        """
        value = Fraction(epsilon)
        of_paper = self.printed(log).get("thresholds", {})
        known = {Fraction(one): thresholds for one, thresholds in of_paper.items()}.get(value)

        def given(name: str) -> int | None:
            one = self.given[name]
            place = self.given["epsilons"].index(epsilon)
            return None if one is None else int(one[place % len(one)])

        harmful, harmless = given("p_harmful"), given("p_harmless")
        if harmful is None and known is not None:
            harmful, standard = known[0], known[-1] if len(known) > 1 else None
        else:
            harmful = math.ceil(2 / value) if harmful is None else harmful
            standard = math.ceil(harmful * _HARMLESS_SHARE) if value < 1 else None
        harmless = standard if harmless is None else harmless
        if harmless is not None and harmless > harmful:
            raise UsageError(
                f"p_harmless must be at most p_harmful, got {harmless} and {harmful} at epsilon "
                f"{epsilon}"
            )
        return harmful, harmless

    def cells(self, log: Log) -> Iterator[Cell]:
        """Yields the settings of Table 4."""
        length = self.length(log)
        first, *others = self.given["k_follows"]
        for epsilon in self.given["epsilons"]:
            harmful, harmless = self.thresholds(log, epsilon)
            levels = {"max_prefix_length": length, "p_harmful": harmful}
            cells: list[tuple[str, str, dict[str, Any]]] = [
                ("SaCoFa", "sacofa", levels),
                ("Laplace", "laplace-variants", levels),
                ("SaPa", "sapa", {"k_follows": first}),
                *((f"SaPa, k = {k}", "sapa", {"k_follows": k}) for k in others),
                ("DF-Laplace", "sapa", {"query": "laplace"}),
            ]
            if harmless is not None:
                cells.append(
                    ("SaCoFa, two thresholds", "sacofa", {**levels, "p_harmless": harmless})
                )
            for arm, method, params in cells:
                params = {"epsilon": epsilon, **params}
                yield Cell(arm, epsilon, epsilon, method, params, is_mined=True)

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

    def parameters(self, log: Log, table: Figures, spec: Row) -> Iterator[Section]:
        """Yields Table 4 as it was used."""
        text = ""
        if not self.printed(log):
            text = (
                f"Not a log of the paper. Unless a flag says otherwise, k is what "
                f"{_LENGTH_SHARE:.0%} of the variants do not exceed, and p_harmful is 2 / epsilon."
            )
        rows = []
        for epsilon in self.given["epsilons"]:
            harmful, harmless = self.thresholds(log, epsilon)
            second = "/" if harmless is None else str(harmless)
            rows.append((epsilon, str(self.length(log)), str(harmful), second))
        header = ("epsilon", "k", "p_harmful", "p_harmless")
        yield Section("Parameters (Table 4)", text, [Table(header, rows)], "table-4")
