"""What the folder of a release holds: its manifest, and its log, graph or tree."""

from __future__ import annotations

from typing import Any

from tracecloak.schemas.errors import InputSchemaError, UsageError
from tracecloak.schemas.events.columns import ColumnMapping
from tracecloak.schemas.events.events import EVENT_INDEX, START_TIMESTAMP
from tracecloak.schemas.published.indicators import ReleasedIndicators
from tracecloak.schemas.published.manifest import MANIFEST_NAME, STAMPED, has_times
from tracecloak.schemas.texts.bounded_json import bounded_json
from tracecloak.transforms.files import exists, join, open_raw
from tracecloak.transforms.formats.registry import SourceFormat
from tracecloak.transforms.inputs.source_files import match_files
from tracecloak.transforms.publish.names import DFG_NAME
from tracecloak.transforms.publish.release_folder import LATEST_NAME
from tracecloak.transforms.sources import EventSource

_TREE_NAME = "tree.json"
_INDICATORS_NAME = "indicators.json"
_MAX_BYTES = 64 << 20


def release_folder(path: str) -> str:
    """Returns the folder of the release that a path means: itself, or its latest.

    Raises:
        UsageError: There is no manifest and no pointer to one.
    """
    if exists(join(path, MANIFEST_NAME)):
        return path
    latest = join(path, LATEST_NAME)
    if not exists(latest):
        raise UsageError(f"released {path!r} holds neither {MANIFEST_NAME} nor {LATEST_NAME}")
    return join(path, _json_of(latest)["path"])


def read_manifest(folder: str) -> dict[str, Any]:
    """Returns the manifest of a release's folder.

    Raises:
        InputSchemaError: It is no JSON of a release.
    """
    return _json_of(join(folder, MANIFEST_NAME))


def released_graph(folder: str, manifest: dict[str, Any]) -> dict[str, Any]:
    """Returns the released directly-follows graph, see `ReleasedGraph.to_json`.

    Raises:
        UsageError: The release has none.
    """
    graph = _listed_json(folder, manifest, DFG_NAME)
    if graph is None:
        raise UsageError(f"the release in {folder!r} holds neither a log nor {DFG_NAME}")
    return graph


def released_tree(folder: str, manifest: dict[str, Any]) -> dict[str, Any] | None:
    """Returns the released process tree, see `ReleasedTree.to_json`, or None: there is none."""
    return _listed_json(folder, manifest, _TREE_NAME)


def released_indicators(folder: str, manifest: dict[str, Any]) -> ReleasedIndicators | None:
    """Returns the released indicators, or None: there are none.

    Raises:
        InputSchemaError: They cannot be read.
    """
    body = _listed_json(folder, manifest, _INDICATORS_NAME)
    if body is None:
        return None
    try:
        return ReleasedIndicators.from_json(body)
    except (KeyError, TypeError, ValueError):
        raise InputSchemaError(
            f"{_INDICATORS_NAME} has no rows of indicators: `tracecloak verify` says what is wrong"
        ) from None


def _listed_json(folder: str, manifest: dict[str, Any], name: str) -> dict[str, Any] | None:
    """What one of the files says that the manifest lists."""
    if name not in [output["path"] for output in manifest["outputs"]]:
        return None
    return _json_of(join(folder, name))


def _json_of(path: str) -> dict[str, Any]:
    """What a file says, which may have come from somebody else."""
    with open_raw(path) as stream:
        data = stream.read(_MAX_BYTES + 1)
    try:
        body = bounded_json(data) if len(data) <= _MAX_BYTES else None
    except ValueError:
        body = None
    if not isinstance(body, dict):
        raise InputSchemaError(
            f"{path!r} is no JSON of a release: `tracecloak verify` says what is wrong with it"
        )
    return body


def released_source(folder: str, manifest: dict[str, Any]) -> EventSource | None:
    """Returns the released log, or None: there is none.

    One without times is read with the numbers of its events in the place of seconds, which order
    them: whoever reads it asks `has_times` before looking at them.
    """
    paths = [output["path"] for output in manifest["outputs"]]
    parts = [path for path in paths if path.startswith("log/")]
    logs = parts or [path for path in paths if path.startswith("log.")][:1]
    if not logs:
        return None
    files = match_files([join(folder, path) for path in logs])
    begun = START_TIMESTAMP if manifest.get("params", {}).get("service_times") else None
    mapping = ColumnMapping(start_timestamp=begun)
    if not (
        has_times(manifest.get("operations", ())) or manifest["tool"]["version"].startswith(STAMPED)
    ):
        mapping = ColumnMapping(timestamp=EVENT_INDEX, timestamp_unit="s")
    return EventSource(tuple(files), SourceFormat(), mapping)
