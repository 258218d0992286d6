"""The map, the variants and the times of a release with the numbers of its original beside them."""

from __future__ import annotations

from typing import Any

from tracecloak.schemas.published.graph import ReleasedGraph
from tracecloak.schemas.published.variants import ReleasedVariants
from tracecloak.transforms.publish.map_data import MAX_PATHS, map_data
from tracecloak.transforms.publish.variants_data import MAX_VARIANTS


def map_beside(released: dict[str, Any], original: ReleasedGraph) -> dict[str, Any]:
    """Returns the map of a release with the original's counts, and its further paths with 0.

    Args:
        released: See `map_data`.
        original: The graph of the original, by names.
    """
    true_map = map_data(original, {})
    own_names = [node["name"] for node in true_map["nodes"]]
    true_nodes = {node["name"]: node["count"] for node in true_map["nodes"]}
    nodes = [{**node, "original": true_nodes.get(node["name"], 0)} for node in released["nodes"]]
    code = {node["name"]: i for i, node in enumerate(nodes)}
    for name, count in true_nodes.items():
        if name not in code:
            code[name] = len(nodes)
            nodes.append({"name": name, "count": 0, "original": count})
    true_edges = {
        (code[own_names[edge["source"]]], code[own_names[edge["target"]]]): edge["count"]
        for edge in true_map["edges"]
    }
    edges = []
    for edge in released["edges"]:
        edges.append({**edge, "original": true_edges.pop((edge["source"], edge["target"]), 0)})
    for (source, target), count in sorted(true_edges.items(), key=lambda item: -item[1]):
        if len(edges) >= 2 * MAX_PATHS:
            break
        edges.append(
            {
                "source": source, "target": target, "count": 0, "original": count,
                "low": None, "high": None, "doubtful": False, "median_s": None,
            }
        )  # fmt: skip
    return {**released, "nodes": nodes, "edges": edges}


def variants_beside(released: dict[str, Any], original: ReleasedVariants) -> dict[str, Any]:
    """Returns the variants of a release with the original's counts, and its frequent others.

    Args:
        released: See `variants_data`; long variants that are cut there are not compared.
        original: The variants of the original, the most frequent first.
    """
    names = list(released["names"])
    code = {name: i for i, name in enumerate(names) if name}
    words = original.names.to_pylist()
    ends = original.offsets.tolist()
    true_counts = {
        tuple(words[c] for c in original.codes[first:last].tolist()): count
        for first, last, count in zip(ends, ends[1:], original.counts.tolist(), strict=False)
    }
    rows = []
    for row in released["rows"]:
        is_whole = row["n_events"] == len(row["codes"])
        key = tuple(names[c] for c in row["codes"])
        true_count = true_counts.pop(key, 0) if is_whole else None
        rows.append(row if true_count is None else {**row, "original": true_count})
    for key, count in list(true_counts.items())[:MAX_VARIANTS]:
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
