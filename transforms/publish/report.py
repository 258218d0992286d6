"""The page of a release, `report.html`: what was released, its pictures, and what it promises.

It is made of the manifest and of what is released beside it, so nothing on it was counted on the
input. A repetition gives the same bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
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
from tracecloak.transforms.pages.page import Page, rendered
from tracecloak.transforms.publish import statement
from tracecloak.transforms.publish.figures_data import (
    NO_STARTS,
    NO_TIMES,
    Medians,
    figures_data,
    folded_map,
    graph_of_log,
    graph_of_variants,
    map_data,
    mark_grades,
    mark_modelled_times,
    medians_of,
    names_of_map,
    sentence_of_variants,
    times_data,
    tree_data,
    variants_data,
    variants_of_log,
)
from tracecloak.transforms.publish.products import PRODUCTS, kind_of
from tracecloak.transforms.publish.release_folder import DFG_NAME, REPORT_NAME, STATEMENT_NAME

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


def openings_of(paths: Sequence[str]) -> list[tuple[str, str]]:
    """Returns with what to open what a release has, and what to type or do in its folder."""
    has_parts = any(path.startswith("log/") for path in paths)
    tables = [path for path in paths if path.endswith(".parquet") and not path.startswith("log/")]
    openings = []
    if has_parts:
        openings += [
            ("pandas", 'import pandas\n\nlog = pandas.read_parquet("log")'),
            ("polars", 'import polars\n\nlog = polars.read_parquet("log/*.parquet")'),
            ("DuckDB", "SELECT activity, count(*) FROM 'log/*.parquet' GROUP BY activity;"),
        ]
    if any(path.endswith(".xes.gz") for path in paths):
        openings += [
            ("pm4py", 'import pm4py\n\nlog = pm4py.read_xes("log.xes.gz")'),
            ("ProM, Disco, Celonis", "Import log.xes.gz as an event log."),
        ]
    if tables and not has_parts:
        first = tables[0]
        openings += [
            ("pandas", f'import pandas\n\ntable = pandas.read_parquet("{first}")'),
            ("polars", f'import polars\n\ntable = polars.read_parquet("{first}")'),
            ("DuckDB", f"SELECT * FROM '{first}';"),
        ]
    if any(path.endswith(".ptml") for path in paths):
        trees = [path for path in paths if path.endswith(".ptml")]
        openings.append(("pm4py", f'import pm4py\n\ntree = pm4py.read_ptml("{trees[0]}")'))
    return openings


# --- The page of a release, `report.html`: what was released, its pictures, and what it promises. -
# Epsilons of published releases, to judge one by: values as their publishers gave them.


_PRIORS = (Fraction(1, 100), Fraction(1, 10), Fraction(1, 2), Fraction(9, 10))
_N_CURVE = 100
_LEAST = 1e-300


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
    in_order = list(products)
    shown, told = _shown_of(in_order, log, manifest)
    page_parts = (kind_of(one).part_of_page(one, manifest.params) for one in in_order)
    parts = [part for part in page_parts if part is not None]
    promise = statement.Promise.of(manifest.guarantee)
    epsilon = manifest.guarantee.epsilon or 0.0
    context = {
        **facts_of(manifest),
        "at_most": at_most,
        "is_compared": False,
        "promise": promise,
        "guesses": promise
        and [
            (f"{decimal_text(p * 100)} %", statement.posterior(p, statement.exact(epsilon)))
            for p in _PRIORS
        ],
        "shown": shown,
        "told": told,
        "page_parts": [(part.template, part.context) for part in parts],
        "files": sorted(files, key=lambda file: file.path),
        "openings": openings_of(sorted(file.path for file in files)),
    }
    data = {
        "file_name": manifest.release_id,
        **{name: shown[name] for name in ("map", "variants", "times", "tree")},
        "guess": promise and _curve(epsilon),
        **({"groups": shown["groups"]["map"]} if shown["groups"] else {}),
    }
    is_there = {**shown, "times": told["times"], "always": True}
    needed = {**shown, "charts": shown["times"] or promise}
    styles = [
        "promise.css",
        *["figures.css"] * shown["kinds"],
        *(s for p in parts for s in p.styles),
    ]
    return rendered(
        Page(
            "release.html.j2",
            statement.printable(manifest.about.get("title") or manifest.release_id),
            (
                *(section for part in parts for section in part.sections),
                *((anchor, title) for anchor, title, of in _SECTIONS if is_there[of]),
            ),
            context,
            data,
            _needed(_SCRIPTS, needed),
            _needed(_LIBRARIES, needed),
            styles=tuple(dict.fromkeys(styles)),
            shares=shares,
        )
    )


# Anchor and title of each section, and what must be shown for it.
_SECTIONS = (
    ("process", "Process", "map"),
    ("trust", "Trust", "figures"),
    ("tree-of-process", "Tree", "tree"),
    ("ways", "Variants", "variants"),
    ("times", "Times", "times"),
    ("promise", "Promise", "always"),
    ("making", "How it was made", "always"),
    ("files", "Files", "always"),
)
# What is shown by each script, in their order, and by each library.
_SCRIPTS = {
    "graphviz.js": ("map", "tree"),
    "layout.js": ("map", "tree"),
    "figures.js": ("graded",),
    "labels.js": ("map",),
    "bpmn.js": ("map",),
    "map.js": ("map",),
    "groups.js": ("groups",),
    "tree.js": ("tree",),
    "variants.js": ("variants",),
    "chart.js": ("charts",),
    "charts.js": ("charts",),
}
_LIBRARIES = {
    "Viz.js": ("map", "tree"),
    "D3": ("charts", "map", "variants"),
    "Observable Plot": ("charts",),
}


def _needed(table: Mapping[str, Sequence[str]], shown: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(name for name, of in table.items() if any(shown[one] for one in of))


def facts_of(manifest: ReleaseManifest) -> dict[str, Any]:
    """Returns what templates print of a release's manifest and of the promise in it."""
    guarantee = manifest.guarantee
    return {
        "manifest": manifest,
        "guarantee": guarantee,
        "said": statement.in_words(manifest),
        "caution": statement.caution(guarantee),
        "came_out": (manifest.came_out or Yield()).sentence_of(manifest.params),
        "operations": statement.operations_in_words(manifest.operations),
        "mechanisms": statement.MECHANISMS,
        "what_is": what_is,
        "noise_of": noise_of,
        "params": statement.params_in_words(manifest.params),
    }


def _shown_of(
    products: list[ReleasedProduct], log: LogCounts | None, manifest: ReleaseManifest
) -> tuple[dict[str, Any], dict[str, str]]:
    """What a page shows of a release, and sentences that say what each of it is.

    Returns:
        JSON values, None or empty where there is none: `map`, `groups`, `figures`, `variants`,
        `times` and `tree`; `kinds`, whether numbers have grades, and `graded`, whether those of the
        map do. And texts by the same names.
    """
    graph: ReleasedGraph | None = _first(products, "graph")
    variants: ReleasedVariants | None = _first(products, "variants")
    tree: ReleasedTree | None = _first(products, "tree")
    durations: ReleasedDurations | None = _first(products, "durations")
    figures: ReleasedFigures | None = _first(products, "figures")
    groups: ReleasedGroups | None = _first(products, "groups")
    is_timed = has_times(manifest.operations)
    medians: Medians = {}
    has_kinds, map_part = False, ""
    if graph is not None:
        medians = {} if durations is None else medians_of(durations, graph)
        has_kinds = graph.has_kinds
        map_part = _NOISY
    elif log is not None:
        graph = graph_of_log(log.graph, log.names, figures)
        medians = log.times.medians_s() if is_timed else {}
        map_part = "The numbers are those of the released log."
        if figures is not None:
            has_kinds = True
            map_part += _MEASURED_BESIDE + _MODELLED_TIMES * is_timed
    elif variants is not None:
        graph = graph_of_variants(variants)
        map_part = "The numbers are summed up from the released variants."
    map_ = None
    if graph is not None and len(graph.counts):
        map_ = map_data(graph, medians)
        if has_kinds:
            mark_grades(map_, graph, figures)
            if log is not None:
                mark_modelled_times(map_)
        if map_["n_left_out"]:
            n_boxes = map_["n_activities_left_out"]
            also = f" and {n_boxes:,} activities" if n_boxes else ""
            map_part += f" {map_['n_left_out']:,} rarer paths{also} are in the files alone."
    variants_part, shown_variants = "", None
    grades = "" if variants is None or not variants.has_kinds else sentence_of_variants(variants)
    if variants is None and log is not None:
        variants = variants_of_log(log.variants, log.names)
    if variants is not None and variants.n_variants:
        shown_variants = variants_data(variants, names_of_map(map_), figures)
        variants_part = f"The release has {variants.n_variants:,} of them, the most frequent first."
        if (n_shown := len(shown_variants["rows"])) < variants.n_variants:
            variants_part += f" This page has the first {n_shown}."
        variants_part += _NOISY_VARIANTS * (variants.lows is not None) + grades
    times_part, times = "", None
    if log is not None and not is_timed:
        times_part = NO_TIMES
    elif log is not None and len(log.times.spans):
        is_dated = has_starts(manifest.operations)
        times = times_data(log.times, has_starts=is_dated)
        times_part = "All of these are numbers of the released log; its times are in UTC."
        times_part += "" if is_dated else f" {NO_STARTS}"
    tree_part = ""
    if tree is not None:
        tree_part = tree.fitness_sentence if tree.is_found else _NOT_FOUND
    order = manifest.guarantee.order_sentence
    return {
        "map": map_,
        "groups": None if groups is None or map_ is None else folded_map(groups),
        "figures": None if figures is None else figures_data(figures),
        "variants": shown_variants,
        "times": times,
        "tree": None if tree is None else tree_data(tree),
        "kinds": has_kinds,
        "graded": has_kinds and map_ is not None,
    }, {
        "map": f"{map_part} {order}".rstrip(),
        "variants": f"{variants_part} {order}".rstrip(),
        "times": " ".join([times_part, *manifest.time_caveats]) if times_part else "",
        "tree": tree_part,
        "tree_text": "" if tree is None else tree.text,
    }


def _first(products: list[ReleasedProduct], kind: str) -> Any:
    """The first product of a kind; the classes of kinds that there are none of are not loaded."""
    return next((product for product in products if kind_of(product) is PRODUCTS[kind]), None)


_NOISY = (
    "The numbers carry noise. A dashed path is doubtful: noise alone could have made it. What the "
    "method counted on the original, after any cut of long cases, lies in the interval of a path "
    "with a probability of about 95 %."
)
_NOISY_VARIANTS = (
    " What the method counted on the original, after any cut of long cases, lies in the interval "
    "with a probability of about 95 %. Of numbers just above a threshold, which noise may have "
    "raised, fewer do."
)
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


def _curve(epsilon: float) -> list[dict[str, float]]:
    """The guesses before and after, for a picture: not rounded up as the table's are."""
    priors = np.arange(_N_CURVE + 1) / _N_CURVE
    decay = max(float(elementary.exp(-epsilon)), _LEAST)  # a guess of 0 stays one
    after = priors / (priors + (1 - priors) * decay)
    return [
        {"prior": round(float(before), 4), "posterior": round(float(to), 4)}
        for before, to in zip(priors, after, strict=True)
    ]
