"""`tracecloak mine`: a process tree of a finished release, at no cost to anybody's privacy.

Whatever is computed from a release alone promises what the release promises (post-processing; Dwork
and Roth, "The Algorithmic Foundations of Differential Privacy", 2014). So any miner will do, and
nothing is charged to the ledger.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from tracecloak.anonymizers.contract.in_memory import group_into_traces
from tracecloak.anonymizers.trees.of_release import tree_of_graph, tree_of_variants
from tracecloak.examination.measure.mining import inductive_tree, require_pm4py
from tracecloak.examination.measure.released import (
    read_manifest,
    release_folder,
    released_edges,
    released_source,
)
from tracecloak.schemas.errors import UsageError
from tracecloak.schemas.models.process_tree import ProcessTree
from tracecloak.schemas.published.graph import ReleasedGraph
from tracecloak.schemas.published.tree import ReleasedTree
from tracecloak.schemas.statistics.variants import VariantHistogram
from tracecloak.transforms.models.tree_forms import forms_of_tree

MINERS = ("precise", "inductive", "infrequent")
NAME = "tree"


@dataclass(frozen=True)
class Mined:
    """A tree that was mined of a release.

    Attributes:
        release_id: Of the release.
        guarantee: What it promises, and so does the tree.
        of: `log` or `graph`: what the tree was mined of.
        tree: The tree.
    """

    release_id: str
    guarantee: str
    of: str
    tree: ReleasedTree

    def write(self, folder: Path) -> list[Path]:
        """Writes tree.json and the tree as text, PTML, PNML, BPMN and SVG into a folder."""
        folder.mkdir(parents=True, exist_ok=True)
        about = {"release_id": self.release_id, "guarantee": self.guarantee, "mined_of": self.of}
        body = json.dumps({**about, **self.tree.to_json()}, indent=1, ensure_ascii=False) + "\n"
        forms = {"json": body.encode()}
        forms |= forms_of_tree(self.tree, f"{self.release_id}: {NAME}", self.guarantee)
        written = []
        for ending, data in forms.items():
            path = folder / f"{NAME}.{ending}"
            path.write_bytes(data)
            written.append(path)
        return written


def mine(released: str, miner: str = "precise") -> Mined:
    """Mines a process tree of a release.

    Args:
        released: A release's folder, or the folder of releases whose latest is meant.
        miner: `precise` is ours, which chooses the tree that fits and allows little else, of a log
            or, where there is none, of a directly-follows graph. `inductive` and `infrequent` are
            pm4py's (Leemans, Fahland and van der Aalst, 2013 and 2014), of a log.

    Raises:
        UsageError: There is no such miner or no release, it has nothing that the miner reads, or
            pm4py is missing.
        InputSchemaError: The released log cannot be read.
    """
    if miner not in MINERS:
        raise UsageError(f"miner must be one of {', '.join(MINERS)}, got {miner!r}")
    folder = release_folder(released)
    manifest = read_manifest(folder)
    source = released_source(folder, manifest)
    if source is None:
        if miner != "precise":
            raise UsageError(
                f"miner {miner!r} needs a log, and the release in {folder!r} has none; use precise"
            )
        edges = released_edges(folder, manifest)
        if not edges:
            raise UsageError("the released graph has no edge, so there is nothing to mine")
        graph = ReleasedGraph.of_edges(edges)
        return _mined(manifest, "graph", graph.names, tree_of_graph(graph))
    if miner != "precise":
        require_pm4py()  # before the log is read
    traces = group_into_traces(source.events())
    if not traces:
        raise UsageError(f"the release in {folder!r} has no case, so there is nothing to mine")
    vocabulary, variants = traces[0].vocabulary, VariantHistogram.from_traces(traces[0])
    if miner == "precise":
        tree = tree_of_variants(variants, vocabulary.names.to_pylist())
    else:
        tree = inductive_tree(variants, vocabulary, is_infrequent=miner == "infrequent")
    return _mined(manifest, "log", vocabulary.names, tree)


def _mined(manifest: dict[str, Any], of: str, names: pa.StringArray, tree: ProcessTree) -> Mined:
    return Mined(
        manifest["release_id"],
        manifest["guarantee"]["sentence"],
        of,
        ReleasedTree(names, str(tree), True, None),
    )
