"""Whether every file is one that releases have, and each picture and model is of its product."""

from __future__ import annotations

from tracecloak.pipelines.verification.data import Contents
from tracecloak.pipelines.verification.findings import NotApplicable, Unsure, Wrong, shown
from tracecloak.schemas.published.manifest import MANIFEST_NAME
from tracecloak.transforms.publish.names import DFG_NAME, REPORT_NAME, STATEMENT_NAME
from tracecloak.transforms.publish.products import kind_of


def check_pictures(contents: Contents) -> str:
    """Each picture and each model is made again of its product, and has the same bytes.

    A picture is opened in a browser as a page is, so that its bytes alone show what it does there.

    Raises:
        Wrong: A file has other bytes, or no release has a file of that name.
        Unsure: The same, but another version made the release, or it is of a product that this
            installation lacks.
        NotApplicable: There is neither a picture nor a model.
    """
    received = contents.received
    others = [path for path in received.paths if path not in _known(contents)]
    if not others:
        raise NotApplicable("There is no picture of a graph or tree, and no model.")
    expected = _expected_files(contents)
    unlike = [
        path for path in others if path in expected and received.folder.read(path) != expected[path]
    ]
    strange = [path for path in others if path not in expected]
    if received.is_by_this_version:
        # A format or a product can be of another distribution, which is not here.
        open_names = {"log", *(name for name, of in contents.products.items() if of is None)}
        if lost := [path for path in strange if path.partition(".")[0] not in open_names]:
            raise Wrong(f"No release has such a file, do not open it: {shown(lost)}.")
        if unlike:
            raise Wrong(
                f"Not what follows from the data, do not open it in a browser: {shown(unlike)}."
            )
    if strange or unlike:
        raise Unsure(
            f"Not known to this installation, do not open it in a browser: "
            f"{shown([*strange, *unlike])}. {MANIFEST_NAME} says that tracecloak "
            f"{received.version} made it."
        )
    return (
        f"Pictures and models were made again of the data: {len(others):,} files, the same bytes."
    )


def _expected_files(contents: Contents) -> dict[str, bytes]:
    """The pictures and models of the products that can be read back, by path."""
    manifest = contents.received.manifest
    files_by_path: dict[str, bytes] = {}
    for name, product in contents.products.items():
        if product is not None:
            title = f"{manifest.release_id}: {name}"
            files = kind_of(product).further_files(product, title, manifest.guarantee.sentence)
            files_by_path |= {f"{name}.{ending}": data for ending, data in files.items()}
    return files_by_path


def _known(contents: Contents) -> set[str]:
    """The paths of the files that other checks look at."""
    known = {STATEMENT_NAME, REPORT_NAME, *(path for form in contents.logs for path in form.paths)}
    known |= {f"{name}.{ending}" for name in contents.products for ending in ("parquet", "json")}
    return known | {DFG_NAME} if contents.logs else known
