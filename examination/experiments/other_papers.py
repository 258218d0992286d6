"""The evaluations of the papers on TLKC, PRETSA, SaCoFa and SaPa, and the DP inductive miner."""

from __future__ import annotations

import contextlib
import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any, ClassVar, NamedTuple, get_args

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tracecloak.anonymizers.noise.randomness import Randomness, ReleaseKey
from tracecloak.anonymizers.pretsa.method import event_distances
from tracecloak.anonymizers.trees.cuts import cases_with_pair
from tracecloak.examination.comparison.contenders import Released
from tracecloak.examination.comparison.original import Original
from tracecloak.examination.comparison.rows import Cell, Row
from tracecloak.examination.experiments.paper import Paper, figures_of, perspectives_of
from tracecloak.examination.linkage.run import FEW_NUMBERS, sensitive_columns
from tracecloak.examination.measure.behaviour_measures import RESOURCE, edges_of
from tracecloak.examination.measure.mining import BASELINES, sequence_entropy
from tracecloak.schemas.arrays.merging import sum_groups
from tracecloak.schemas.errors import UsageError
from tracecloak.schemas.events.columns import ColumnMapping
from tracecloak.schemas.events.declarations import MAX_VALUES, numbers_of
from tracecloak.schemas.statistics.background_knowledge import Perspective, TimeUnit

# --- `tracecloak experiment tlkc` -----------------------------------------------------------------
# Rafiei, van der Aalst: Group-Based Privacy Preservation Techniques for Process Mining, section 6:
# both algorithms for every kind of background knowledge, beside the two baselines; mined models,
# data utility, directly-follows graphs, handover networks and bottlenecks, as Tables 9 and 10 and
# Figures 5 to 13 have them. What is shown and stated is in `papers/tlkc.toml`.

_ALGORITHMS = {"TLKC-EXT": ("n_score", "alpha"), "TLKC": ("frequent_traces", "theta")}
_BASELINES = {"Baseline-1": "k-anonymous-variants", "Baseline-2": "k-anonymous-subtraces"}
# Knowledge of more than a sequence is that of the times, and no baseline is for less.
_OF_BASELINES = ("sequence", "relative")
_ENDINGS: dict[Perspective, str] = {
    "activity": "",
    "resource": ", resources",
    "activity_resource": ", activities with resources",
}
# All settings of section 6.1.
_UNITS, _LENGTHS, _KS = ("hours", "minutes"), range(2, 7), range(20, 61, 10)
_CONFIDENCES = (0.2, 0.3, 0.4, 0.5)


class Setting(NamedTuple):
    """T, L, K and C."""

    time_unit: str
    length: int
    k: int
    confidence: float


class TlkcPaper(Paper):
    """The evaluation; see above."""

    name: ClassVar[str] = "tlkc"

    def __init__(self, texts: Mapping[str, str | None]) -> None:
        super().__init__(texts)
        self.settings_by_name = settings_of(self.given["settings"], self.spec["settings"])
        self._sensitive = sensitive_columns(self.given["sensitive"] or "")
        self._weights = {name: _weight(name, self.given[name]) for name in ("alpha", "theta")}

    def words(self) -> Mapping[str, Any]:
        """Returns what the flags say, and the settings for the notes."""
        settings = ", ".join(
            f"{name} is {'/'.join(map(str, one))}" for name, one in self.settings_by_name.items()
        )
        sensitive = ", ".join(self._sensitive) or "none"
        return {**self.given, "sensitive": sensitive, "settings_by_name": settings}

    def columns(self, mapping: ColumnMapping) -> Mapping[str, str]:
        """Returns those of the sensitive attributes, and of the resource if it is mapped."""
        resource = {} if mapping.resource is None else {RESOURCE: mapping.resource}
        return {**self._sensitive, **resource}

    def cells(self, log: Original) -> Iterator[Cell]:
        """Yields both algorithms and both baselines, for every setting and perspective.

        Raises:
            UsageError: An attribute has more values than can be declared.
        """
        sensitive = {name: declaration(log, name) for name in self._sensitive}
        profile = self.given["profile"]
        for perspective in perspectives_of(log):
            resources = {} if perspective == "activity" else {RESOURCE: declaration(log, RESOURCE)}
            for (name, setting), arm, kind in itertools.product(
                self.settings_by_name.items(), (*_ALGORITHMS, *_BASELINES), self.given["knowledge"]
            ):
                params = {
                    "k": setting.k, "time_unit": setting.time_unit, "perspective": perspective,
                    "knowledge_kind": kind,
                }  # fmt: skip
                declared = {"resources": resources}
                if arm in _ALGORITHMS:
                    algorithm, weight = _ALGORITHMS[arm]
                    declared["sensitive"] = sensitive
                    params |= {
                        "length": setting.length, "confidence": setting.confidence,
                        "algorithm": algorithm, "profile": profile, weight: self._weights[weight],
                    }  # fmt: skip
                elif kind not in _OF_BASELINES:
                    continue
                yield Cell(
                    f"{arm}, {kind}{_ENDINGS[perspective]}",
                    name, "", _BASELINES.get(arm, "tlkc"), params, needs_log=True,
                    is_mined=perspective == "activity",
                    declared={what: columns for what, columns in declared.items() if columns},
                    is_drawn=arm in _ALGORITHMS and profile == "paper",
                )  # fmt: skip

    def figures(self, log: Original, released: Released, cell: Cell) -> Row:
        """Returns the measures of every perspective that the release has."""
        return figures_of(log, released)


def settings_of(text: str, named: Mapping[str, str]) -> dict[str, Setting]:
    """Returns settings by their names: those that are named, T/L/K/C, or all 200 of the paper.

    Raises:
        UsageError: One is none of these, is there twice, or there is none.
    """
    if text == "all":
        every = itertools.product(_UNITS, _LENGTHS, _KS, _CONFIDENCES)
        return {"/".join(map(str, one)): Setting(*one) for one in every}
    names = [part.strip() for part in text.split(",") if part.strip()]
    settings = {}
    for name in names:
        try:
            unit, length, k, confidence = named.get(name, name).split("/")
            settings[name] = Setting(unit, int(length), int(k), float(confidence))
            if unit not in get_args(TimeUnit):
                raise ValueError(unit)
        except ValueError:
            raise UsageError(
                f"settings must be {', '.join(named)}, all, or T/L/K/C such as hours/2/20/0.5, got "
                f"{name!r}"
            ) from None
    if not names or len(settings) < len(names):
        raise UsageError(f"settings must be distinct and separated by commas, got {text!r}")
    return settings


def declaration(log: Original, name: str) -> dict[str, Any]:
    """Declares an attribute by the values of a log: texts, or bounds of numbers that are many.

    Raises:
        UsageError: It has no value, or too many.
    """
    values = pc.unique(log.traces.attributes[name].cast(pa.string())).to_pylist()
    texts = sorted(text for text in values if text)
    column = log.columns[name]
    numbers = numbers_of(pa.array(texts if name != RESOURCE else [], pa.string())).tolist()
    if len(numbers) > FEW_NUMBERS and all(map(math.isfinite, numbers)):
        is_whole = all(number == int(number) for number in numbers)
        low, high = min(numbers), max(numbers)
        n_bins = min(int(high - low) + 1, MAX_VALUES) if is_whole else MAX_VALUES
        return {"bounds": [low, high], "n_bins": n_bins, "whole": is_whole, "column": column}
    if not 0 < len(texts) <= MAX_VALUES:
        raise UsageError(
            f"{name} must have 1 to {MAX_VALUES} different values in {log.name!r}, got {len(texts)}"
        )
    return {"values": texts, "column": column}


def _weight(name: str, text: str) -> float:
    """Returns a number, whose range the method knows."""
    [number] = numbers_of(pa.array([text])).tolist()
    if math.isnan(number):
        raise UsageError(f"{name} must be a number from 0 to 1, got {text!r}")
    return number


# --- `tracecloak experiment pretsa`: the evaluation of PRETSA with learnt distances. --------------
# Rösel, Fahrenkrog-Petersen, van der Aa and Weidlich ("A Distance Measure for Privacy-preserving
# Process Mining based on Feature Learning"), section 4: PRETSA with Levenshtein's and with the
# embedding distance for every k and t, Figures 2 to 4 and Table 3; PRETSA-case beside them. What is
# shown and stated is in `papers/pretsa.toml`.


_TOP = (1, 2, 3)


class PretsaPaper(Paper):
    """The evaluation; see above."""

    name: ClassVar[str] = "pretsa"

    def cells(self, log: Original) -> Iterator[Cell]:
        """Yields every k and t for each distance, and every k for PRETSA-case."""
        for distance in self.given["distances"]:
            for k in self.given["k"]:
                params = {
                    "k": k, "distance": distance, "protect_ends": self.given["ends"] == "protected"
                }  # fmt: skip
                if distance == "embedding":
                    params["penalty_direction"] = self.given["penalty_direction"]
                for t in self.given["t"]:
                    arm, with_t = f"PRETSA, {distance}, t = {t}", {**params, "t": float(t)}
                    yield Cell(arm, str(k), "", "pretsa", with_t, needs_log=True)
                yield Cell(
                    f"PRETSA-case, {distance}", str(k), "", "pretsa-case", params, needs_log=True
                )

    def figures(self, log: Original, released: Released, cell: Cell) -> Row:
        """Returns the measures of activities and times; of the log itself its Table 3 too."""
        row = figures_of(log, released)
        return row if cell.method else {**row, **self._properties(log)}

    def _properties(self, log: Original) -> Row:
        """A row of Tables 2 and 3; distances only where the embedding is looked at."""
        row: Row = {f"top_{x}": share for x, share in zip(_TOP, top_shares(log), strict=True)}
        row["mean_cases"] = log.variants.n_cases / log.variants.n_variants
        row["most_cases"] = int(log.variants.counts.max())
        if "embedding" in self.given["distances"]:
            randomness = Randomness(ReleaseKey.generate(), "experiment", "", "")
            with contextlib.suppress(UsageError):  # without gensim: the releases say so
                distances = event_distances(log.variants, randomness)
                used = np.unique(log.variants.codes)
                between = distances[np.ix_(used, used)]
                row["event_distance_mean"] = float(between.mean())
                row["event_distance_std"] = float(between.std())
        return row


def top_shares(log: Original) -> Sequence[float | None]:
    """Returns the share of the 1, 2 and 3 most frequent directly-followers of an activity.

    Table 3: medians over the activities that are followed by any; None if none is.
    """
    edges = edges_of(log.traces)
    order = np.lexsort((-edges.counts, edges.sources))
    sources, weights = edges.sources[order], edges.counts[order]
    if not len(sources):
        return [None] * len(_TOP)
    heads = np.flatnonzero(np.diff(sources, prepend=-1))
    group = np.cumsum(np.diff(sources, prepend=-1) != 0) - 1
    rank = np.arange(len(sources)) - heads[group]
    total = sum_groups(group, weights, len(heads))
    shares = []
    for x in _TOP:
        top = sum_groups(group[rank < x], weights[rank < x], len(heads))
        shares.append(float(np.median(top / total)))
    return shares


# --- `tracecloak experiment sacofa-sapa`: the evaluation of the SaCoFa and SaPa paper. ------------
# Fahrenkrog-Petersen, Kabierski, van der Aa and Weidlich ("Semantics-aware Mechanisms for
# Control-flow Anonymization in Process Mining", 2023), section 5: the parameters of Table 4, ten
# repetitions, and Figures 2 to 10, as `papers/sacofa-sapa.toml` has them.


# Without an entry of Table 4: prefixes as long as this share of the variants at most, within the 80
# to 90 % of the paper; and of two thresholds the lower is this share of the higher.
_LENGTH_SHARE = 0.85
_HARMLESS_SHARE = Fraction(3, 4)


class SacofaSapaPaper(Paper):
    """The evaluation; see above."""

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

    def length(self, log: Original) -> int:
        """Returns the levels of prefixes for a log."""
        lengths = np.diff(log.variants.offsets)
        common = int(np.quantile(lengths, _LENGTH_SHARE, method="inverted_cdf"))
        return int(
            self.given["max_prefix_length"] or self.printed(log).get("max_prefix_length", common)
        )

    def thresholds(self, log: Original, epsilon: str) -> tuple[int, int | None]:
        """Returns (p_harmful, p_harmless); no second one where the paper has none.

        Raises:
            UsageError: The second is higher.
        """
        value = Fraction(epsilon)
        printed = self.printed(log).get("thresholds", {})
        known = {Fraction(one): thresholds for one, thresholds in printed.items()}.get(value)

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

    def cells(self, log: Original) -> Iterator[Cell]:
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

    def figures(self, log: Original, released: Released, cell: Cell) -> Row:
        """Returns sizes, entropy and the share of normal traces; models are judged elsewhere."""
        variants = released.variants
        return {
            "released_cases": variants.n_cases,
            "released_variants": variants.n_variants,
            "relative_size": variants.n_cases / log.traces.n_cases,
            "sequence_entropy": sequence_entropy(variants) if variants.n_variants else None,
            "normal_share": log.normal.share(variants),
        }


# --- `tracecloak experiment dpim`: the evaluation of the DP inductive miner, on given logs. -------
# Schulze, Zisgen, Kirschke, Mohammadi and Koschmider ("Differentially Private Inductive Miner"),
# section VI: how far `dpim` without noise is from the inductive miner (Figure 3), and fitness,
# precision, simplicity and generalisation at three epsilons (Figure 4); `process-tree`, whose
# epsilon holds, beside it. The infrequent inductive miner and the flower model are lines in the
# same charts: a model that fits says nothing if the flower, which allows everything, fits as
# well. What is shown and stated is in `papers/dpim.toml`.


_NO_NOISE = "no noise"
# What stands for no noise: the paper's epsilon, and the largest that `process-tree` takes.
_WITHOUT_NOISE = {"dpim": "100000", "process-tree": "1000"}


class DpimPaper(Paper):
    """The evaluation; see above."""

    name: ClassVar[str] = "dpim"

    def words(self) -> Mapping[str, Any]:
        """Returns what the flags say, and the epsilons that stand for no noise for the notes."""
        return {**self.given, "without_noise": _WITHOUT_NOISE}

    def cells(self, log: Original) -> Iterator[Cell]:
        """Yields the models of the log itself, then both methods without noise and at epsilons."""
        for name in BASELINES:
            yield Cell(name, "", "", "", is_mined=True, model=name, is_drawn=False)
        names = list(log.names)
        dpim_params: dict[str, Any] = {"vocabulary": names}
        if self.given["size_bounds"] == "log":
            dpim_params = {"bounds_from_log": True}
        if self.given["fitness_measure"] != "share":
            dpim_params["fitness_measure"] = self.given["fitness_measure"]
        n_pairs = int((cases_with_pair(log.variants, len(log.vocabulary.names)) > 0).sum())
        every_pair = {"size_bounds": [n_pairs, n_pairs], "fitness_threshold": "0"}
        for level in (_NO_NOISE, *self.given["epsilons"]):
            for arm, method, params in (
                ("dpim", "dpim", dpim_params),
                ("dpim, every pair", "dpim", every_pair),
                ("process-tree", "process-tree", {"vocabulary": names}),
            ):
                if params is every_pair and level != _NO_NOISE:
                    continue
                epsilon = _WITHOUT_NOISE[method] if level == _NO_NOISE else level
                params = {"epsilon": epsilon, **params}
                yield Cell(arm, level, epsilon, method, params, is_mined=True)

    def log_cell(self) -> Cell:
        """Returns the cell of the log itself, whose models have cells of their own."""
        return replace(super().log_cell(), is_mined=False)

    def figures(self, log: Original, released: Released, cell: Cell) -> Row:
        """Returns whether a tree was found, its size, and what the release says of its fitness."""
        if released.tree is None:
            return dict.fromkeys(("is_found", "said_fitness", "nodes", "activities"))
        return {
            "is_found": float(released.tree.is_found),
            "said_fitness": released.tree.fitness,
            "nodes": len(list(released.tree.tree.nodes())),
            "activities": len(released.tree.tree.labels),
        }
