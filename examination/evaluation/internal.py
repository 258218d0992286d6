"""The operator's edition of a release's page: the release beside its log, and what an officer asks.

It is computed on the unprotected log and says so. Nothing of it is drawn, spent or released: for
the curve of risk and use a method is run again with other epsilons, and each release is thrown
away. Who chooses an epsilon by it lets the choice tell something of the log.
"""

from __future__ import annotations

import json
import logging
import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pydantic

from tracecloak.anonymizers.accounting.composition import decimal_text
from tracecloak.anonymizers.contract.in_memory import whole_log
from tracecloak.anonymizers.contract.wrong_values import usage_error
from tracecloak.anonymizers.noise.randomness import Randomness, ReleaseKey
from tracecloak.anonymizers.registry import method_named
from tracecloak.examination.attack.run import epsilons_of
from tracecloak.examination.evaluation.evaluate import evaluation_of, graph_of, notes_of, row_of
from tracecloak.examination.linkage.knowledge import LinkedLog, Settings, no_values
from tracecloak.examination.linkage.run import Linkage, link
from tracecloak.examination.measure.registry import MEASURES
from tracecloak.examination.profile.profile import events_of
from tracecloak.pipelines.ledger.balance import Balance
from tracecloak.pipelines.ledger.entries import Entry
from tracecloak.pipelines.planning.findings import finding_lines, share_text
from tracecloak.pipelines.planning.utility import estimate_utility_of_log
from tracecloak.pipelines.verification.data import Contents
from tracecloak.pipelines.verification.received import Received
from tracecloak.schemas.errors import UsageError
from tracecloak.schemas.events.tally import ReadTally
from tracecloak.schemas.events.traces import TraceBatch
from tracecloak.schemas.published.graph import ReleasedGraph
from tracecloak.schemas.published.manifest import ReleaseManifest, has_starts, has_times
from tracecloak.schemas.published.variants import ReleasedVariants, variants_of_log
from tracecloak.schemas.statistics.log_times import LogTimes
from tracecloak.schemas.statistics.variants import DirectlyFollows, VariantHistogram
from tracecloak.transforms.files import open_raw
from tracecloak.transforms.pages.page import Page, rendered
from tracecloak.transforms.publish import figures_data
from tracecloak.transforms.publish.release_folder import DFG_NAME
from tracecloak.transforms.publish.statement import Promise
from tracecloak.transforms.sources import EventSource

# --- Risk against use: a method again with other epsilons on the log, each release thrown away. ---
# For the operator only: the numbers are exact about private data, and nothing is spent because
# nothing is released. Who chooses an epsilon by them lets the choice tell something of the log.


_LOG = logging.getLogger("tracecloak")
REPETITIONS = 3
_PRIOR = 0.1
# Parameters by which a release counts more than the activities and times of cases.
_NOT_READ = ("max_cases_per_individual", "attributes")


def risk_curve(
    manifest: ReleaseManifest, original: TraceBatch, epsilons: Sequence[str]
) -> list[dict[str, Any]]:
    """Returns a point for each epsilon, in ascending order.

    That is the epsilon, as text; risk, what a guess of 10 % can rise to; error, the median relative
    error of the directly-follows graph; and is_own, whether it is the epsilon of the release.

    None of a method without that parameter, and of one that releases neither log, graph nor
    variants, such as a tree.

    Args:
        manifest: Of the release whose method and parameters are taken.
        original: The log.
        epsilons: As texts; that of the release is always among them.

    Raises:
        UsageError: The method takes no such epsilon, or the release counts what is not read here:
            individuals, or attributes.
    """
    method = method_named(manifest.method)
    released_epsilon = manifest.params.get("epsilon")
    if "epsilon" not in method.Params.model_fields or released_epsilon is None:
        return []
    for name in _NOT_READ:
        if manifest.params.get(name):
            raise UsageError(
                f"curve cannot be drawn of a release with {name}, which this report does not read: "
                "leave it out, and use `tracecloak compare` for the method without it"
            )
    points = []
    for epsilon in _ascending([str(released_epsilon), *epsilons]):
        try:
            params = method.Params(**{**manifest.params, "epsilon": epsilon})
        except pydantic.ValidationError as wrong:
            raise usage_error(wrong, method.name) from None
        errors: list[float] = []
        for number in range(REPETITIONS):
            _LOG.info("curve: epsilon %s (%d of %d)", epsilon, number + 1, REPETITIONS)
            key = ReleaseKey.generate()
            error = estimate_utility_of_log(method, params, original, key).graph_error
            if error is None:
                return []
            errors.append(error)
        growth = float(np.exp(min(float(epsilon), 500)))
        points.append(
            {
                "epsilon": epsilon,
                "risk": _PRIOR * growth / (_PRIOR * growth + 1 - _PRIOR),
                "error": statistics.median(errors),
                "is_own": float(epsilon) == float(released_epsilon),
            }
        )
    return points


def _ascending(epsilons: Sequence[str]) -> list[str]:
    """The epsilons in order, each once, however it is written."""
    by_value: dict[float, str] = {}
    for text in epsilons:
        try:
            by_value.setdefault(float(text), text)
        except ValueError:
            raise UsageError(
                f"curve must be epsilons separated by commas, got {text!r}; such as 0.5,1,2"
            ) from None
    return [by_value[value] for value in sorted(by_value)]


# ---
# The map, the variants and the times of a release with the numbers of its original beside them.


_SIZES = (1, 2, 3, 4)  # of what somebody knows
_KINDS = {
    "set": "which activities",
    "multiset": "which activities how often",
    "sequence": "which activities in which order",
    "relative": "which activities at which times",
}
_SCRIPTS = (
    "chart.js", "graphviz.js", "layout.js", "labels.js", "bpmn.js", "map.js", "variants.js",
    "charts.js", "assessment.js",
)  # fmt: skip


def internal_report(
    source: EventSource,
    release: Received,
    noted_share: Callable[[str, str, TraceBatch], float | None] | None = None,
    entries: Sequence[Entry] | None = None,
    balance: Balance | None = None,
    has_linkage: bool = True,
    curve: Sequence[str] = (),
    attack: Mapping[str, Any] | None = None,
) -> bytes:
    """Returns the page.

    Args:
        source: The log that the release was made of.
        release: The release, see `Received.at`.
        noted_share: See `examination.evaluation.evaluate`.
        entries: Of the account that paid, in order; None: no ledger could be read.
        balance: Of the account; None: not known.
        has_linkage: Whether linkage attacks are played.
        curve: Epsilons with which the method is run again, as texts; empty: it is not.
        attack: What `tracecloak attack config` reported as JSON values; None: it was not run.

    Raises:
        UsageError: The release is of another log.
        InputSchemaError: A log or a file of the release cannot be read.
    """
    manifest = release.manifest
    _LOG.info("measuring")
    report = evaluation_of(source, release, noted_share)
    original, tally = _read(source)
    released = Contents(release).whole()
    shown = _shown(release, released, original)
    linkages: list[Linkage] = []
    if has_linkage and released is not None:
        _LOG.info("looking for cases that are singled out")
        log = LinkedLog("original", original, no_values(original))
        is_timed = has_times(manifest.operations)
        after = LinkedLog("released", released, no_values(released), is_timed)
        randomness = Randomness(ReleaseKey.generate(), "linkage", "", "")
        linkages = list(link(log, [after], randomness, Settings(sizes=_SIZES)))
    points = risk_curve(manifest, original, curve) if curve else []
    is_without_times = bool(shown["variants"]) and not has_times(manifest.operations)
    claims = [] if attack is None else epsilons_of(attack)
    last = {entry.charge: entry for entry in entries or () if entry.is_of_charge}
    title = f"{manifest.about.get('title') or manifest.release_id}: beside its log"
    sections = (
        ("measures", "Measures", True),
        ("process", "Process", shown["map"]),
        ("ways", "Variants", shown["variants"]),
        ("times", "Times", shown["times"] or is_without_times),
        ("curve", "Risk and use", points),
        ("linkage", "Singled out", linkages),
        ("attack", "Attack", attack),
        ("records", "Records", True),
        ("budget", "Budget", True),
        ("assessment", "Assessment", True),
    )
    context = {
        "release": release,
        "manifest": manifest,
        "report": report,
        "measures": MEASURES,
        "row_of": row_of,
        "notes": notes_of(report),
        "shown": shown,
        "no_times": figures_data.NO_TIMES if is_without_times else "",
        "curve_repetitions": REPETITIONS,
        "curve": points,
        "kinds": _KINDS,
        "linkages": linkages,
        "attack": attack,
        "claims": claims,
        "read": share_text(tally),
        "findings": list(finding_lines(tally, source)),
        "balance": balance,
        "decimal": decimal_text,
        "entries": sorted(last.values(), key=lambda entry: entry.seq),
        "promise": Promise.of(manifest.guarantee),
    }
    bars = [
        {
            "label": f"{one.size}: {_KINDS[one.kind]}",
            "before": one.before.singled_out.value,
            "after": one.after[0].singled_out.value,
        }
        for one in linkages
    ]
    data = {
        "file_name": f"{manifest.release_id}-beside-its-log",
        **shown,
        "tree": None,
        "guess": None,
        "curve": {"measure": "relative error of the graph", "rows": points} if points else None,
        "linkage": bars or None,
        "attack": claims or None,
    }
    anchors = tuple((anchor, name) for anchor, name, there in sections if there)
    libraries = ("Viz.js", "D3", "Observable Plot")
    return rendered(Page("internal.html.j2", title, anchors, context, data, _SCRIPTS, libraries))


def _read(source: EventSource) -> tuple[TraceBatch, ReadTally]:
    events, tally, _ = events_of(source)
    return whole_log(events, drops_duplicates=source.drops_duplicates), tally


def _shown(
    release: Received, released: TraceBatch | None, original: TraceBatch
) -> dict[str, dict[str, Any] | None]:
    """The map, the variants and the times that the page shows of the two logs, or a map alone."""
    shown: dict[str, dict[str, Any] | None] = dict.fromkeys(("map", "variants", "times"))
    operations = release.body["operations"]
    truth = figures_data.graph_of_log(DirectlyFollows.from_traces(original), original.vocabulary)
    if released is None:
        if DFG_NAME in release.paths and (edges := graph_of(release)["edges"]):
            shown["map"] = map_with_original(
                figures_data.map_data(ReleasedGraph.from_edges(edges), {}), truth
            )
        return shown
    times, is_timed = LogTimes.from_traces(released), has_times(operations)
    graph = figures_data.graph_of_log(DirectlyFollows.from_traces(released), released.vocabulary)
    medians = times.medians_s() if is_timed else {}
    shown["map"] = map_with_original(figures_data.map_data(graph, medians), truth)
    after, true = (
        variants_of_log(VariantHistogram.from_traces(log), log.vocabulary)
        for log in (released, original)
    )
    data = figures_data.variants_data(after, figures_data.names_of_map(shown["map"]))
    shown["variants"] = variants_with_original(data, true)
    if is_timed:
        both = times, LogTimes.from_traces(original)
        shown["times"] = figures_data.times_data(*both, has_starts=has_starts(operations))
    return shown


def attack_of(path: str) -> dict[str, Any]:
    """Returns what `tracecloak attack config` wrote.

    Raises:
        ValueError: It is no such report.
        OSError: It cannot be read.
    """
    with open_raw(path) as stream:
        body = json.loads(stream.read())
    if not isinstance(body, dict) or "claimed" not in body or "audited" not in body:
        raise ValueError("no report of an attack")
    return body


def map_with_original(released: dict[str, Any], original: ReleasedGraph) -> dict[str, Any]:
    """Returns the map of a release with the original's counts, and its further paths with 0.

    Args:
        released: See `map_data`.
        original: The graph of the original, by names.
    """
    true_map = figures_data.map_data(original, {})
    nodes = {node["name"]: {**node, "original": 0} for node in released["nodes"]}
    for node in true_map["nodes"]:
        shown = nodes.setdefault(node["name"], {"name": node["name"], "count": 0})
        shown["original"] = node["count"]
    code = {name: i for i, name in enumerate(nodes)}
    own_code = [code[node["name"]] for node in true_map["nodes"]]
    edges = {(e["source"], e["target"]): {**e, "original": 0} for e in released["edges"]}
    for edge in sorted(true_map["edges"], key=lambda edge: -edge["count"]):
        source, target = own_code[edge["source"]], own_code[edge["target"]]
        if (source, target) not in edges:
            if len(edges) >= 2 * figures_data.MAX_PATHS:
                continue
            edges[source, target] = {
                "source": source, "target": target, "count": 0,
                "low": None, "high": None, "doubtful": False, "median_s": None,
            }  # fmt: skip
        edges[source, target]["original"] = edge["count"]
    return {**released, "nodes": list(nodes.values()), "edges": list(edges.values())}


def variants_with_original(released: dict[str, Any], original: ReleasedVariants) -> dict[str, Any]:
    """Returns the variants of a release with the original's counts, and its frequent others.

    Args:
        released: See `variants_data`; long variants that are cut there are not compared.
        original: The variants of the original, the most frequent first.
    """
    code = {name: i for i, name in enumerate(released["names"]) if name}
    names = list(released["names"])
    true_counts = {k[1:]: int(n) for k, n in original.numbers().items() if k[0] == "variant"}
    rows = []
    for row in released["rows"]:
        if row["n_events"] == len(row["codes"]):
            key = tuple(names[c] for c in row["codes"])
            row = {**row, "original": true_counts.pop(key, 0)}
        rows.append(row)
    for key, count in list(true_counts.items())[: figures_data.MAX_VARIANTS]:
        for name in key:
            if name not in code:
                code[name] = len(names)
                names.append(name)
        codes = [code[name] for name in key]
        rows.append(
            {
                "codes": codes, "n_events": len(codes), "count": 0, "original": count,
                "low": None, "high": None,
            }
        )  # fmt: skip
    rows.sort(key=lambda row: -max(row["count"], row.get("original", 0)))
    return {**released, "names": names, "rows": rows}
