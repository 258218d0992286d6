"""Whether the folder holds what the manifest lists, as it lists it, and nothing else."""

from __future__ import annotations

from tracecloak.pipelines.verification.findings import NotApplicable, Wrong, shown
from tracecloak.pipelines.verification.received import Received
from tracecloak.schemas.published.manifest import MANIFEST_NAME, SIGNATURE_NAMES
from tracecloak.transforms.publish.names import STATEMENT_NAME


def check_files(received: Received) -> str:
    """Every listed file is there with its size and its digest.

    Raises:
        Wrong: One is not, or the list is none that a release has.
        NotApplicable: The manifest lists none, as that of a stream.
    """
    if received.is_stream and received.paths:
        raise Wrong(f"{MANIFEST_NAME} of an epoch lists files, although it is written before them.")
    if received.is_stream:
        raise NotApplicable(
            f"{MANIFEST_NAME} of an epoch is written before its steps, so it has no digests of "
            "them: that they are whole is not shown."
        )
    paths = received.paths
    strange = [path for path in paths if not _is_plain(path)]
    if strange:
        raise Wrong(f"{MANIFEST_NAME} lists paths that lie outside the folder: {shown(strange)}.")
    if len(set(paths)) < len(paths):
        raise Wrong(f"{MANIFEST_NAME} lists a file twice.")
    if STATEMENT_NAME not in paths:
        raise Wrong(f"{MANIFEST_NAME} lists no {STATEMENT_NAME}, which every release has.")
    sizes = received.folder.sizes
    missing = [path for path in paths if path not in sizes]
    if missing:
        raise Wrong(f"Not there, or no plain file: {shown(missing)}.")
    changed = [
        output["path"]
        for output in received.outputs
        if sizes[output["path"]] != output["n_bytes"]
        or received.folder.sha256(output["path"]) != output["sha256"]
    ]
    if changed:
        raise Wrong(f"Not as {MANIFEST_NAME} lists it (size or SHA-256): {shown(changed)}.")
    return f"All {len(paths):,} files that {MANIFEST_NAME} lists are there, as they were released."


def check_leftovers(received: Received) -> str:
    """Nothing is in the folder that does not belong to the release.

    Raises:
        Wrong: Something is.
    """
    sizes, odd = received.folder.listed
    known = {MANIFEST_NAME, *SIGNATURE_NAMES, *received.paths}
    if received.is_stream:
        known.add(STATEMENT_NAME)
        known.update(path for _, forms in received.steps() for path in forms.values())
    others = sorted([*(path for path in sizes if path not in known), *odd])
    if others:
        raise Wrong(
            f"No part of the release: {shown(others)}. Nothing speaks for such a file, link or "
            "folder; ask who sent it."
        )
    return "The folder holds nothing else."


def _is_plain(path: str) -> bool:
    """Whether a path stays in its folder, on any system."""
    parts = path.split("/")
    return (
        not any(part in ("", ".", "..") for part in parts)
        and path.isprintable()
        and not set(path) & set("\\:")
        and path != MANIFEST_NAME
    )
