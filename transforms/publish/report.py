"""The page of a release, `report.html`: what was released, its pictures, and what it promises.

It is made of the manifest and of what is released beside it, so nothing on it was counted on the
input. A repetition gives the same bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from tracecloak.anonymizers.accounting.composition import decimal_text
from tracecloak.schemas.arrays import elementary
from tracecloak.schemas.published.figures import LEGEND, MODELLED, ReleasedFigures, ReleasedProduct
from tracecloak.schemas.published.graph import (
    ReleasedDurations,
    ReleasedGraph,
    ReleasedGroups,
    ReleasedTree,
)
from tracecloak.schemas.published.manifest import (
    OutputFile,
    ReleaseManifest,
    at_most,
    has_starts,
    has_times,
)
from tracecloak.schemas.published.variants import LogCounts, ReleasedVariants, variants_of_log
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
    medians_of,
    n_noise_of,
    names_of_map,
    times_data,
    tree_data,
    variants_data,
)
from tracecloak.transforms.publish.products import PRODUCTS, called, kind_of

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
    page_parts = (called(kind_of(one).part, one, manifest.params) for one in in_order)
    parts = [part for part in page_parts if part is not None]
    facts, epsilon = statement.facts_of(manifest), manifest.guarantee.epsilon or 0.0
    promise = facts["promise"]
    context = {
        **facts,
        "at_most": at_most,
        "is_compared": False,
        "guesses": promise
        and [
            (f"{decimal_text(p * 100)} %", statement.posterior(p, statement.exact(epsilon)))
            for p in _PRIORS
        ],
        "shown": shown,
        "told": told,
        "page_parts": [(part.template, part.context) for part in parts],
        "files": sorted(files, key=lambda file: file.path),
        "paths": sorted(file.path for file in files),
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
    has_kinds, source = False, "graph"
    if graph is not None:
        medians = {} if durations is None else medians_of(durations, graph)
        has_kinds = graph.has_kinds
    elif log is not None:
        graph, source = graph_of_log(log.graph, log.names, figures), "log"
        medians = log.times.medians_s() if is_timed else {}
        has_kinds = figures is not None
    elif variants is not None:
        graph, source = graph_of_variants(variants), "variants"
    map_ = None
    if graph is not None and len(graph.counts):
        map_ = map_data(graph, medians, figures, is_graded=has_kinds)
        for edge in map_["edges"] if has_kinds and log is not None else ():
            edge.setdefault("time_grade", MODELLED)  # its time was drawn, where it has no figure
    is_graded = variants is not None and variants.has_kinds
    if variants is None and log is not None:
        variants = variants_of_log(log.variants, log.names)
    if variants is not None and not variants.n_variants:
        variants = None
    shown_variants = variants and variants_data(variants, names_of_map(map_), figures)
    times, is_dated = None, has_starts(manifest.operations)
    if log is not None and is_timed and len(log.times.spans):
        times = times_data(log.times, has_starts=is_dated)
    told = statement.sentences(
        "told.txt.j2",
        source=source if graph is not None else "",
        map=map_,
        figures=figures,
        is_timed=is_timed,
        variants=variants,
        n_shown=len(shown_variants["rows"]) if shown_variants else 0,
        is_graded=is_graded,
        n_noise=n_noise_of(variants) if variants is not None and is_graded else 0,
        legend=LEGEND,
        times=times,
        no_times=NO_TIMES if log is not None and not is_timed else "",
        is_dated=is_dated,
        no_starts=NO_STARTS,
        tree=tree,
        order=manifest.guarantee.order_sentence,
    )
    if "times" in told:
        told["times"] = " ".join([told["times"], *manifest.time_caveats])
    return {
        "map": map_,
        "groups": None if groups is None or map_ is None else folded_map(groups),
        "figures": None if figures is None else figures_data(figures),
        "variants": shown_variants,
        "times": times,
        "tree": None if tree is None else tree_data(tree),
        "kinds": has_kinds,
        "graded": has_kinds and map_ is not None,
    }, {"times": "", "tree_text": "" if tree is None else tree.text, **told}


def _first(products: list[ReleasedProduct], kind: str) -> Any:
    """The first product of a kind; the classes of kinds that there are none of are not loaded."""
    return next((product for product in products if kind_of(product) is PRODUCTS.get(kind)), None)


def _curve(epsilon: float) -> list[dict[str, float]]:
    """The guesses before and after, for a picture: not rounded up as the table's are."""
    priors = np.arange(_N_CURVE + 1) / _N_CURVE
    decay = max(float(elementary.exp(-epsilon)), _LEAST)  # a guess of 0 stays one
    after = priors / (priors + (1 - priors) * decay)
    return [
        {"prior": round(float(before), 4), "posterior": round(float(to), 4)}
        for before, to in zip(priors, after, strict=True)
    ]
