"""The page of a release, `report.html`: what was released, its pictures, and what it promises.

It is made of the manifest and of what is released beside it, so nothing on it was counted on the
input. A repetition gives the same bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from tracecloak.anonymizers.accounting.composition import decimal_text, noise_of
from tracecloak.schemas.arrays import elementary
from tracecloak.schemas.published.manifest import (
    OutputFile,
    ReleaseManifest,
    Yield,
    at_most,
    has_starts,
    has_times,
)
from tracecloak.transforms.pages.page import Page, PagePart, rendered
from tracecloak.transforms.publish.figures_data import (
    Medians,
    figures_data,
    folded_map,
    graph_of_log,
    graph_of_variants,
    map_data,
    mark_grades,
    mark_modelled_times,
    medians_of,
    sentence_of_variants,
    tree_data,
)
from tracecloak.transforms.publish.products import PRODUCTS, kind_of
from tracecloak.transforms.publish.release_folder import DFG_NAME, REPORT_NAME, STATEMENT_NAME
from tracecloak.transforms.publish.statement import (
    MECHANISMS,
    Promise,
    caution,
    exact,
    in_words,
    operations_in_words,
    params_in_words,
    posterior,
    printable,
)

if TYPE_CHECKING:
    from tracecloak.schemas.published.figures import ReleasedFigures, ReleasedProduct
    from tracecloak.schemas.published.graph import (
        LogCounts,
        ReleasedDurations,
        ReleasedGraph,
        ReleasedGroups,
        ReleasedTree,
    )
    from tracecloak.schemas.published.variants import ReleasedVariants


# --- What the files of a release are, and how somebody who has never seen one opens them. ---------


_EXACT = {
    DFG_NAME: "directly-follows graph: activities, and paths with their counts",
    "figures.parquet": "totals, with their intervals, and the most that a path not shown can have",
    REPORT_NAME: "everything on one page, for a browser",
    STATEMENT_NAME: "the promise in words, for the file of a privacy officer",
}
_BY_NAME = {
    "figures": "numbers with their kinds and 95 % intervals",
    "groups": "groups of activities, and how cases go from one to another",
    "indicators": "indicators by group, with their 95 % intervals and units",
    "measures": "the noisy counts that the log was drawn from",
}
_BY_ENDING = {
    ".parquet": "table",
    ".json": "the same as JSON",
    ".xes.gz": "the log as XES (IEEE 1849), for process mining tools",
    ".spreadsheet.csv.gz": "the log as CSV, with an apostrophe in front of formulas",
    ".csv.gz": "the log as CSV, for spreadsheets",
    ".avro": "the log as Avro",
    ".dot": "the graph for Graphviz",
    ".svg": "a picture",
    ".pnml": "the tree as a Petri net",
    ".ptml": "the process tree for ProM and pm4py",
    ".bpmn": "the tree as BPMN",
    ".tree": "the process tree as text",
    ".sig": "signature of the manifest",
}


@dataclass(frozen=True)
class Opening:
    """How to open a file with something.

    Attributes:
        title: With what.
        code: What to type or do.
    """

    title: str
    code: str


def what_is(path: str) -> str:
    """Returns what a file of a release is, in a few words."""
    if path in _EXACT:
        return _EXACT[path]
    if path.startswith("log/"):
        return "a part of the log: case_id, activity, timestamp and attributes"
    name, _, ending = path.partition(".")
    if name in _BY_NAME and ending in ("parquet", "json"):
        return _BY_NAME[name] + (", as JSON" if ending == "json" else "")
    return next((text for end, text in _BY_ENDING.items() if path.endswith(end)), "")


def openings_of(paths: Sequence[str]) -> list[Opening]:
    """Returns how to open what a release has, from its folder."""
    has_parts = any(path.startswith("log/") for path in paths)
    tables = [path for path in paths if path.endswith(".parquet") and not path.startswith("log/")]
    openings = []
    if has_parts:
        openings += [
            Opening("pandas", 'import pandas\n\nlog = pandas.read_parquet("log")'),
            Opening("polars", 'import polars\n\nlog = polars.read_parquet("log/*.parquet")'),
            Opening("DuckDB", "SELECT activity, count(*) FROM 'log/*.parquet' GROUP BY activity;"),
        ]
    if any(path.endswith(".xes.gz") for path in paths):
        openings += [
            Opening("pm4py", 'import pm4py\n\nlog = pm4py.read_xes("log.xes.gz")'),
            Opening("ProM, Disco, Celonis", "Import log.xes.gz as an event log."),
        ]
    if tables and not has_parts:
        first = tables[0]
        openings += [
            Opening("pandas", f'import pandas\n\ntable = pandas.read_parquet("{first}")'),
            Opening("polars", f'import polars\n\ntable = polars.read_parquet("{first}")'),
            Opening("DuckDB", f"SELECT * FROM '{first}';"),
        ]
    if any(path.endswith(".ptml") for path in paths):
        trees = [path for path in paths if path.endswith(".ptml")]
        openings.append(Opening("pm4py", f'import pm4py\n\ntree = pm4py.read_ptml("{trees[0]}")'))
    return openings


# --- The page of a release, `report.html`: what was released, its pictures, and what it promises. -
# Epsilons of published releases, to judge one by: values as their publishers gave them.


_PRIORS = (Fraction(1, 100), Fraction(1, 10), Fraction(1, 2), Fraction(9, 10))
_N_CURVE = 100
_LEAST = 1e-300
_N_FIRST = 20  # paths and variants of the page without scripts


def report_html(
    manifest: ReleaseManifest,
    files: Sequence[OutputFile],
    products: Iterable[ReleasedProduct],
    log: LogCounts | None,
    shares: bool = False,
) -> bytes:
    """Returns the page, which depends on what it is given alone, so that `verify` makes it again.

    Args:
        manifest: The release's, with what came out.
        files: The released files but this one and the manifest.
        products: What is released beside a log or in place of one.
        log: What was counted on the released log; None where there is none.
        shares: Whether its libraries are those of a folder beside the releases.
    """
    of_release = list(products)
    operations = manifest.operations
    shown = _Shown.of(of_release, log, has_times(operations), has_starts(operations))
    parts = [
        part
        for product in of_release
        for part in kind_of(product).parts_of_page(product, manifest.params)
    ]
    files = sorted(files, key=lambda file: file.path)
    context = {
        **facts_of(manifest),
        "at_most": at_most,
        "is_compared": False,
        "bound": _bound(manifest),
        "references": references_beside(manifest),
        **shown.context(manifest.time_caveats, manifest.guarantee.order_sentence),
        "page_parts": [(part.template, part.context) for part in parts],
        "files": files,
        "openings": openings_of([file.path for file in files]),
    }
    data = {
        "file_name": manifest.release_id,
        "map": shown.map,
        "variants": shown.variants,
        "times": shown.times,
        "tree": shown.tree,
        "guess": _curve(manifest.guarantee.epsilon or 0.0) if context["bound"] else None,
    }
    if shown.groups is not None:
        data["groups"] = shown.groups["map"]
    return rendered(
        Page(
            "release.html.j2",
            printable(manifest.about.get("title") or manifest.release_id),
            tuple(section for part in parts for section in part.sections) + shown.sections(),
            context,
            data,
            *shown.scripts_and_libraries(is_charted=data["guess"] is not None),
            styles=_styles_of(parts, has_kinds=shown.has_kinds),
            shares=shares,
        )
    )


def _styles_of(parts: list[PagePart], *, has_kinds: bool) -> tuple[str, ...]:
    """Each style sheet once."""
    names = [name for part in parts for name in part.styles]
    return tuple(dict.fromkeys(["promise.css", *(["figures.css"] if has_kinds else []), *names]))


def facts_of(manifest: ReleaseManifest) -> dict[str, Any]:
    """Returns what templates print of a release's manifest and of the promise in it."""
    guarantee = manifest.guarantee
    return {
        "manifest": manifest,
        "guarantee": guarantee,
        "said": in_words(manifest),
        "caution": caution(guarantee),
        "came_out": (manifest.came_out or Yield()).sentence_of(manifest.params),
        "operations": operations_in_words(manifest.operations),
        "mechanisms": MECHANISMS,
        "what_is": what_is,
        "noise_of": noise_of,
        "params": params_in_words(manifest.params),
    }


@dataclass
class _Shown:
    """What a page shows of a release, each with a sentence that says what it is."""

    map: dict[str, Any] | None = None
    map_told: str = ""
    variants: dict[str, Any] | None = None
    variants_told: str = ""
    times: dict[str, Any] | None = None
    times_told: str = ""
    tree: list[dict[str, Any]] | None = None
    tree_told: str = ""
    tree_text: str = ""
    figures: dict[str, Any] | None = None
    groups: dict[str, Any] | None = None
    has_kinds: bool = False

    @classmethod
    def of(
        cls, products: list[ReleasedProduct], log: LogCounts | None, is_timed: bool, is_dated: bool
    ) -> _Shown:
        shown = cls()
        graph: ReleasedGraph | None = _first(products, "graph")
        variants: ReleasedVariants | None = _first(products, "variants")
        tree: ReleasedTree | None = _first(products, "tree")
        durations: ReleasedDurations | None = _first(products, "durations")
        figures: ReleasedFigures | None = _first(products, "figures")
        medians: Medians = {}
        if graph is not None:
            medians = {} if durations is None else medians_of(durations, graph)
            shown.has_kinds = graph.has_kinds
            shown.map_told = (
                "The numbers carry noise. A dashed path is doubtful: noise alone could have made "
                "it. What the method counted on the original, after any cut of long cases, lies in "
                "the interval of a path with a probability of about 95 %."
            )
        elif log is not None:
            graph = graph_of_log(log.graph, log.names, figures)
            medians = log.times.medians_s() if is_timed else {}
            shown.map_told = "The numbers are those of the released log."
            if figures is not None:
                shown.has_kinds = True
                shown.map_told += _MEASURED_BESIDE
                shown.map_told += _MODELLED_TIMES * is_timed
        elif variants is not None:
            graph = graph_of_variants(variants)
            shown.map_told = "The numbers are summed up from the released variants."
        if graph is not None and len(graph.counts):
            shown.map = map_data(graph, medians)
            if shown.has_kinds:
                mark_grades(shown.map, graph, figures)
                if log is not None:
                    mark_modelled_times(shown.map)
            if shown.map["n_left_out"]:
                n_paths, n_boxes = shown.map["n_left_out"], shown.map["n_activities_left_out"]
                also = f" and {n_boxes:,} activities" if n_boxes else ""
                shown.map_told += f" {n_paths:,} rarer paths{also} are in the files alone."
        groups: ReleasedGroups | None = _first(products, "groups")
        if groups is not None and shown.map is not None:
            shown.groups = folded_map(groups)
        if figures is not None:
            shown.figures = figures_data(figures)
        is_product = variants is not None
        if variants is None and log is not None:
            from tracecloak.transforms.publish.figures_data import variants_of_log

            variants = variants_of_log(log.variants, log.names)
        if variants is not None and variants.n_variants:
            shown._show_variants(variants, figures, has_kinds=is_product)
        if log is not None and not is_timed:
            from tracecloak.transforms.publish.figures_data import NO_TIMES

            shown.times_told = NO_TIMES
        elif log is not None and len(log.times.spans):
            from tracecloak.transforms.publish.figures_data import NO_STARTS, times_data

            shown.times = times_data(log.times, has_starts=is_dated)
            shown.times_told = "All of these are numbers of the released log; its times are in UTC."
            if not is_dated:
                shown.times_told += f" {NO_STARTS}"
        if tree is not None:
            shown.tree = tree_data(tree)
            shown.tree_text = tree.text
            shown.tree_told = tree.fitness_sentence if tree.is_found else _NOT_FOUND
        return shown

    def context(self, time_caveats: Iterable[str], order_sentence: str) -> dict[str, Any]:
        """Returns what the template prints of the released graphs, variants, times and tree."""
        return {
            "has_map": self.map is not None,
            "figures": self.figures,
            "groups": self.groups,
            "map_told": f"{self.map_told} {order_sentence}".rstrip(),
            "first_paths": _first_paths(self.map),
            "has_tree": self.tree is not None,
            "tree_told": self.tree_told,
            "tree_text": self.tree_text,
            "has_variants": self.variants is not None,
            "variants_told": f"{self.variants_told} {order_sentence}".rstrip(),
            "first_variants": _first_variants(self.variants),
            "has_times": self.times is not None,
            "times_told": " ".join([self.times_told, *time_caveats]) if self.times_told else "",
            "has_starts": self.times is not None and bool(self.times["starts"]),
            "has_week": self.times is not None and self.times["week"] is not None,
        }

    def sections(self) -> tuple[tuple[str, str], ...]:
        """Returns (anchor, title) of each section of the page."""
        sections = [
            ("process", "Process", self.map),
            ("trust", "Trust", self.figures),
            ("tree-of-process", "Tree", self.tree),
            ("ways", "Variants", self.variants),
            ("times", "Times", self.times_told or None),
            ("promise", "Promise", True),
            ("making", "How it was made", True),
            ("files", "Files", True),
        ]
        return tuple((anchor, name) for anchor, name, is_there in sections if is_there)

    def scripts_and_libraries(self, *, is_charted: bool) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Returns the scripts that the page needs, and the libraries that these need."""
        is_charted = is_charted or self.times is not None
        needs_map = self.map is not None or self.tree is not None
        scripts = (
            *(["graphviz.js", "layout.js"] if needs_map else []),
            *(["figures.js"] if self.map is not None and self.has_kinds else []),
            *(["labels.js", "bpmn.js", "map.js"] if self.map is not None else []),
            *(["groups.js"] if self.groups is not None else []),
            *(["tree.js"] if self.tree is not None else []),
            *(["variants.js"] if self.variants is not None else []),
            *(["chart.js", "charts.js"] if is_charted else []),
        )
        libraries = (
            *(["Viz.js"] if needs_map else []),
            *(["D3"] if is_charted or self.map is not None or self.variants is not None else []),
            *(["Observable Plot"] if is_charted else []),
        )
        return scripts, libraries

    def _show_variants(
        self,
        variants: ReleasedVariants,
        figures: ReleasedFigures | None,
        *,
        has_kinds: bool,
    ) -> None:
        from tracecloak.transforms.publish.figures_data import variants_data

        names = []
        if self.map is not None:
            ends = (self.map["start"], self.map["end"])
            nodes = self.map["nodes"]
            names = ["" if i in ends else node["name"] for i, node in enumerate(nodes)]
        self.variants = variants_data(variants, names, figures)
        sentences = f"The release has {variants.n_variants:,} of them, the most frequent first."
        n_shown = len(self.variants["rows"])
        if n_shown < variants.n_variants:
            sentences += f" This page has the first {n_shown}."
        if variants.lows is not None:
            sentences += (
                " What the method counted on the original, after any cut of long cases, lies in "
                "the interval with a probability of about 95 %."
                " Of numbers just above a threshold, which noise may have raised, fewer do."
            )
        if has_kinds and variants.has_kinds:
            sentences += sentence_of_variants(variants)
        self.variants_told = sentences


def _first(products: list[ReleasedProduct], kind: str) -> Any:
    """The first product of a kind; the classes of kinds that there are none of are not loaded."""
    return next((product for product in products if kind_of(product) is PRODUCTS[kind]), None)


_MEASURED_BESIDE = (
    " Each interval follows from noisy counts of the original beside it, so a number can lie at "
    "its end; it holds what the original has with a probability of about 95 %."
)
_MODELLED_TIMES = (
    " Median times between two activities were drawn so that the rest agrees: they are modelled, "
    "have no interval, and are grey. Mean times are below, under trust."
)
_NOT_FOUND = (
    "No tree was found that is good enough, so this one follows from the names of the activities "
    "alone."
)


def _bound(manifest: ReleaseManifest) -> dict[str, Any] | None:
    promise = Promise.of(manifest.guarantee)
    if promise is None:
        return None
    epsilon = exact(manifest.guarantee.epsilon or 0.0)
    rows = [(f"{decimal_text(prior * 100)} %", posterior(prior, epsilon)) for prior in _PRIORS]
    return {"rows": rows, "odds": promise.odds, "epsilon": promise.epsilon}


def _curve(epsilon: float) -> list[dict[str, float]]:
    """The guesses before and after, for a picture: not rounded up as the table's are."""
    priors = np.arange(_N_CURVE + 1) / _N_CURVE
    decay = max(float(elementary.exp(-epsilon)), _LEAST)  # a guess of 0 stays one
    after = priors / (priors + (1 - priors) * decay)
    return [
        {"prior": round(float(before), 4), "posterior": round(float(to), 4)}
        for before, to in zip(priors, after, strict=True)
    ]


def _first_paths(shown: dict[str, Any] | None) -> list[tuple[str, str, int]]:
    if shown is None:
        return []
    names = [node["name"] for node in shown["nodes"]]
    edges = sorted(shown["edges"], key=lambda edge: -edge["count"])[:_N_FIRST]
    return [(names[edge["source"]], names[edge["target"]], edge["count"]) for edge in edges]


def _first_variants(shown: dict[str, Any] | None) -> list[tuple[int, list[str]]]:
    if shown is None:
        return []
    names = shown["names"]
    return [
        (row["count"], [names[code] for code in row["codes"]]) for row in shown["rows"][:_N_FIRST]
    ]


@dataclass(frozen=True)
class Reference:
    """A release whose epsilon is known.

    Attributes:
        epsilon: Its epsilon, in the publisher's definition.
        unit: What one was protected.
        release: What was released.
        source: Where the value was published.
        is_own: Whether it is the release in question.
    """

    epsilon: float
    unit: str
    release: str
    source: str
    is_own: bool = False


_PUBLISHED = (
    Reference(
        1,
        "person and day",
        "Wikimedia: page views by country and day",
        "Adeleye et al., Publishing Wikipedia usage data with strong privacy guarantees, 2023",
    ),
    Reference(
        2.64,
        "person and day",
        "Google: Community Mobility Reports",
        "Aktay et al., Google COVID-19 Community Mobility Reports: Anonymization Process "
        "Description, 2020",
    ),
    Reference(
        4,
        "person and day",
        "Apple: emoji that are popular (noise is added on the device)",
        "Apple, Differential Privacy Overview, 2017",
    ),
    Reference(
        9.98,
        "birth",
        "Israel's Ministry of Health: registry of live births of 2014",
        "Hod and Canetti, Differentially Private Release of Israel's National Registry of Live "
        "Births, 2024",
    ),
    Reference(
        17.14,
        "person",
        "U.S. Census Bureau: redistricting data of 2020, persons",
        "U.S. Census Bureau, Census Bureau Sets Key Parameters to Protect Privacy in 2020 Census "
        "Results, 9 June 2021",
    ),
)


def references_beside(manifest: ReleaseManifest) -> tuple[Reference, ...]:
    """Returns the published values in ascending order, with that of a release among them."""
    guarantee = manifest.guarantee
    if guarantee.epsilon is None:
        return _PUBLISHED
    ours = Reference(guarantee.epsilon, guarantee.unit, "this release", "this page", is_own=True)
    return tuple(sorted((*_PUBLISHED, ours), key=lambda reference: reference.epsilon))
