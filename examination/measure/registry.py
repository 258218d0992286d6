"""Every measure by its name: what it is, whence, from where to where it goes, and what is better.

`evaluate`, `compare` and their reports take names and legends from here, and every value passes
`checked`: one outside of the range of its measure is a mistake of ours, and never printed.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

# What of a release a measure looks at.
Need = Literal["variants", "times", "graph", "intervals", "tree", "indicators"]
# Whether less or more is better; `log`: the nearer to the value of the original itself the better;
# `none`: neither.
Better = Literal["less", "more", "log", "none"]

# Measures of one release by their names; None where one does not apply.
Figures = dict[str, float | None]

_INFINITY = math.inf
# What sums of rounded numbers may miss.
_SLACK = 1e-9

_WORDS: Mapping[Better, str] = {
    "less": "less is better",
    "more": "more is better",
    "log": "the nearer to the log's own the better",
    "none": "neither is better",
}


@dataclass(frozen=True)
class Measure:
    """One number that a release gets.

    Attributes:
        name: As in reports and rows.
        title: In tables.
        formula: What is computed, as text.
        source: The paper that it is from, or after; `own` where it is in none.
        low: Its smallest possible value.
        high: Its largest; infinity if there is none.
        better: See `Better`.
        needs: What of a release it looks at.
    """

    name: str
    title: str
    formula: str
    source: str
    low: float
    high: float
    better: Better
    needs: tuple[Need, ...]

    @property
    def range(self) -> str:
        """From where to where, in words."""
        end = "upwards" if self.high == _INFINITY else f"to {self.high:g}"
        return f"from {self.low:g} {end}"

    @property
    def direction(self) -> str:
        """What is better, in words."""
        return _WORDS[self.better]

    def checked(self, value: float | None) -> float | None:
        """Returns a value of the measure, without what rounding put outside of its range.

        Raises:
            ArithmeticError: It is out of range by more than that, or no number.
        """
        if value is None:
            return None
        if not self.low - _SLACK <= value <= self.high + _SLACK:
            raise ArithmeticError(f"{self.name} goes {self.range}, and came out elsewhere")
        return min(max(float(value), self.low), self.high)

    def distance(self, value: float, of_log: float | None) -> float:
        """Returns what is smaller the better the value is.

        Args:
            value: The value.
            of_log: That of the original itself, for measures that shall be near it.
        """
        if self.better == "log":
            return abs(value - of_log) if of_log is not None else 0.0
        return {"less": value, "more": -value, "none": 0.0}[self.better]

    def to_json(self) -> dict[str, Any]:
        """Returns its line of a legend as JSON values; no upper end is null."""
        return {
            "title": self.title,
            "formula": self.formula,
            "source": self.source,
            "range": [self.low, None if self.high == _INFINITY else self.high],
            "better": self.better,
            "needs": list(self.needs),
        }


_EMD = "Rubner, Tomasi, Guibas 2000; Leemans, Syring, van der Aalst 2019"
_AMUN = "Elkoumy, Pankova, Dumas: Amun, Table 7"
_AMUN_VARIANTS = "Elkoumy, Pankova, Dumas: Amun, Table 6"
_TLKC = "Rafiei, van der Aalst: Group-Based Privacy Preservation Techniques, section 6"
_PRETSA = "Fahrenkrog-Petersen, van der Aa, Weidlich: PRETSA"
_DPIM = "Schulze et al.: Differentially Private Inductive Miner, section VI"
_UNIQUENESS = "after Nuñez von Voigt et al. 2020"
_TV = "total variation; Levin, Peres 2017, section 4.1"
_WASSERSTEIN = "first Wasserstein distance; as in Chapela-Campa et al. 2023"

_ALL = (
    # Variants.
    Measure(
        "variant_emd", "variant EMD",
        "earth mover's distance of the shares of cases by variant; to move costs the Levenshtein "
        "distance divided by the longer length",
        _EMD, 0, 1, "less", ("variants",),
    ),
    Measure(
        "variant_total_variation", "variant TV",
        "half the sum over variants of |share of the release - share of the log|",
        _TV, 0, 1, "less", ("variants",),
    ),
    Measure(
        "true_variant_mass", "true variants",
        "share of the released cases whose variant is in the log; 1 of none",
        "own", 0, 1, "more", ("variants",),
    ),
    Measure(
        "relative_size", "size", "released cases over the log's",
        "own", 0, _INFINITY, "log", ("variants",),
    ),
    Measure(
        "variants_lost", "lost variants", "variants of the log that the release does not have",
        _AMUN_VARIANTS, 0, _INFINITY, "less", ("variants",),
    ),
    Measure(
        "variants_invented", "invented variants", "released variants that the log does not have",
        _AMUN_VARIANTS, 0, _INFINITY, "less", ("variants",),
    ),
    Measure(
        "jaccard_distance", "Jaccard distance",
        "1 - |A and B| / |A or B| of the sets of variants",
        _AMUN_VARIANTS, 0, 1, "less", ("variants",),
    ),
    Measure(
        "prefix_jaccard_distance", "Jaccard distance by prefixes",
        "1 - S / (events of all variants of both - S), S the lengths of the common prefixes of "
        "variants that are matched greedily",
        "the published code of Amun, Table 6", 0, 1, "less", ("variants",),
    ),
    Measure(
        "trace_length_distance", "length distance",
        "first Wasserstein distance of the lengths of cases, in events",
        _WASSERSTEIN, 0, _INFINITY, "less", ("variants",),
    ),
    Measure(
        "activity_mix_total_variation", "activity TV",
        "half the sum over activities of |share of events of the release - of the log|",
        _TV, 0, 1, "less", ("variants",),
    ),
    Measure(
        "next_activity_accuracy", "next activity",
        "share of the events of a fifth of the log's cases whose successor, or end of case, is "
        "foretold by a trigram with back-off that is trained on the release",
        "Katz 1987; train on synthetic, test on real: Esteban, Hyland, Rätsch 2017",
        0, 1, "more", ("variants",),
    ),
    # Graphs.
    Measure(
        "edge_relative_error", "DFG error",
        "sum over directly-follows pairs, start and end included, of |released count - count| over "
        "the sum of the counts; 1 is what nothing gives",
        "relative L1 error; own", 0, _INFINITY, "less", ("graph",),
    ),
    Measure(
        "edge_total_variation", "DFG TV",
        "half the sum over the same pairs of |share of the release - share of the log|",
        _TV, 0, 1, "less", ("graph",),
    ),
    Measure(
        "edge_precision", "true pairs", "share of the released pairs that the log has",
        "own", 0, 1, "more", ("graph",),
    ),
    Measure(
        "edge_recall", "kept pairs", "share of the log's pairs that the release has",
        "own", 0, 1, "more", ("graph",),
    ),
    Measure(
        "edge_frequency_emd", "edge frequency EMD",
        "Wasserstein distance of the lists of pairs' counts, whichever pair has which",
        _AMUN, 0, _INFINITY, "less", ("variants",),
    ),
    Measure(
        "edge_mean_absolute_error", "edge error", "mean over pairs of |released count - count|",
        "own", 0, _INFINITY, "less", ("variants",),
    ),
    Measure(
        "interval_coverage", "coverage",
        "share of the published 95 % intervals of pairs that hold the exact count of the whole "
        "log, of which nothing is promised where lengths or numbers of cases are cut",
        "Neyman 1937", 0, 1, "more", ("intervals",),
    ),
    Measure(
        "interval_width", "interval width",
        "mean width of the published intervals over that of the noise alone",
        "own", 0, _INFINITY, "less", ("intervals",),
    ),
    # Indicators.
    Measure(
        "indicator_coverage", "coverage of figures",
        "share of the released figures whose 95 % interval holds the number of the whole log, of "
        "which nothing is promised where bounds cut off what lies beyond",
        "Neyman 1937", 0, 1, "more", ("indicators",),
    ),
    Measure(
        "indicator_error", "error of figures",
        "median over figures of |released - log's| over the log's, of those that are not 0",
        "own", 0, _INFINITY, "less", ("indicators",),
    ),
    Measure(
        "usable_indicator_error", "error of usable ones", "the same of the usable figures alone",
        "own", 0, _INFINITY, "less", ("indicators",),
    ),
    Measure(
        "worst_indicator_error", "worst error of figures", "the largest of these errors",
        "own", 0, _INFINITY, "less", ("indicators",),
    ),
    # Times.
    Measure(
        "case_duration_distance", "duration distance",
        "first Wasserstein distance of the case durations over the log's mean",
        _WASSERSTEIN, 0, _INFINITY, "less", ("times",),
    ),
    Measure(
        "top_variant_duration_error", "duration of top variants",
        "mean over the log's ten most frequent variants of |released mean duration - mean| / "
        "max(mean, .01 day); 1 for a variant that is not released",
        "own", 0, _INFINITY, "less", ("times",),
    ),
    Measure(
        "duration_eta_squared", "eta squared",
        "share of the variance of log(1 + hours) of case durations that lies between the log's ten "
        "most frequent variants and all others as one",
        "correlation ratio: Fisher 1925; eta squared: Cohen 1973", 0, 1, "log", ("times",),
    ),
    Measure(
        "big_pair_wait_error", "wait of big pairs",
        "median over the pairs that at least max(20, 2 %) of the log's cases show of |released "
        "mean wait - mean wait| / max(mean wait, 1 second); 1 for a pair that is not released",
        "own", 0, _INFINITY, "less", ("times",),
    ),
    Measure(
        "misplaced_waiting_time", "misplaced waiting time",
        "half the sum over directly-follows pairs of |share of the release's waiting time that "
        "goes by at the pair - share of the log's|",
        _TV, 0, 1, "less", ("times",),
    ),
    Measure(
        "service_time_error", "service error",
        "sum over activities of events x |released mean service time - mean| over the log's sum of "
        "service times; service goes from the start, or the completion before if that is later, to "
        "the completion; 1 is what no service at all gives",
        "own", 0, _INFINITY, "less", ("times",),
    ),
    Measure(
        "waiting_time_error", "waiting error",
        "the same of waiting times: what is left of the time between two completions",
        "own", 0, _INFINITY, "less", ("times",),
    ),
    Measure(
        "drift", "drift",
        "total variation of the log's ten most frequent variants, all others as one, between the "
        "first and the second half of the cases by start",
        "after Bose, van der Aalst, Žliobaitė, Pechenizkiy 2014", 0, 1, "log", ("times",),
    ),
    Measure(
        "case_duration_distance_days", "duration distance, days",
        "first Wasserstein distance of the case durations, in days",
        _WASSERSTEIN, 0, _INFINITY, "less", ("times",),
    ),
    Measure(
        "total_duration_error", "total duration error",
        "|total time of all cases of the release - of the log| over that of the log",
        _PRETSA, 0, _INFINITY, "less", ("times",),
    ),
    Measure(
        "hour_of_week_total_variation", "hours of the week",
        "total variation of the events over the 168 hours of the week, in UTC",
        _TV, 0, 1, "less", ("times",),
    ),
    Measure(
        "edge_time_emd_months", "edge time EMD, months",
        "Wasserstein distance of the lists of pairs' total durations, in months of thirty days",
        _AMUN, 0, _INFINITY, "less", ("times",),
    ),
    # Models.
    Measure(
        "tree_fitness", "tree fitness", "token replay of the log on the released tree",
        f"Rozinat, van der Aalst 2008; {_DPIM}", 0, 1, "more", ("tree",),
    ),
    Measure(
        "tree_precision", "tree precision", "1 - share of escaping edges, by token replay",
        f"Muñoz-Gama, Carmona 2010; {_DPIM}", 0, 1, "more", ("tree",),
    ),
    Measure(
        "tree_simplicity", "tree simplicity",
        "1 / (1 + what the mean degree of the net's places and transitions has above 2)",
        f"Vázquez-Barreiros, Mucientes, Lama 2015; {_DPIM}", 0, 1, "more", ("tree",),
    ),
    Measure(
        "tree_generalization", "tree generalisation",
        "1 - mean over transitions of 1 / root of the times that the log fires it",
        f"Buijs, van Dongen, van der Aalst 2014; {_DPIM}", 0, 1, "more", ("tree",),
    ),
    Measure(
        "tree_share", "share that fits",
        "mean over cases of the share of events, and the end, that the tree replays",
        "own", 0, 1, "more", ("tree",),
    ),
    Measure(
        "mined_fitness", "fitness of a mined model",
        "token replay of the whole log on the model that the inductive miner (infrequent, noise "
        "0.2) finds in the released one",
        "Rozinat, van der Aalst 2008; Leemans, Fahland, van der Aalst 2014",
        0, 1, "none", ("variants",),
    ),
    Measure(
        "mined_precision", "precision of it", "1 - share of escaping edges of the same model",
        "Muñoz-Gama, Carmona 2010", 0, 1, "none", ("variants",),
    ),
    Measure(
        "mined_f_score", "F-score of it",
        "harmonic mean of the two; a model of few variants is precise, so more need not be better",
        "van Rijsbergen 1979", 0, 1, "none", ("variants",),
    ),
    # Disclosure.
    Measure(
        "singled_out", "singled out",
        "share of the log's cases of which ten events, drawn at random and known in their order, "
        "fit exactly one released case; of a shorter case all are known",
        _UNIQUENESS, 0, 1, "less", ("variants",),
    ),
    Measure(
        "singled_out_in_time", "singled out with times",
        "the same where the whole hours since the case began are known of each event",
        _UNIQUENESS, 0, 1, "less", ("variants", "times"),
    ),
    Measure(
        "seconds", "seconds",
        "of one release in memory; where one round of counts is all, from the counts on",
        "own",
        0, _INFINITY, "none", ("variants", "graph"),
    ),
)  # fmt: skip

MEASURES: Mapping[str, Measure] = {measure.name: measure for measure in _ALL}


def checked(values: Mapping[str, float | None]) -> Figures:
    """Returns values by the names of their measures, each checked.

    Raises:
        KeyError: There is no such measure.
        ArithmeticError: A value is out of its range.
    """
    return {name: MEASURES[name].checked(value) for name, value in values.items()}


def legend(names: Iterable[str]) -> dict[str, Any]:
    """Returns the legend of some measures as JSON values, in the order of the registry."""
    wanted = set(names)
    return {name: measure.to_json() for name, measure in MEASURES.items() if name in wanted}


def legend_lines(names: Iterable[str]) -> Iterator[str]:
    """Yields the same as lines of a Markdown list."""
    wanted = set(names)
    for measure in _ALL:
        if measure.name in wanted:
            yield (
                f"- **{measure.title}** (`{measure.name}`): {measure.formula}. It goes "
                f"{measure.range}; {measure.direction}. Source: {measure.source}."
            )
