"""Whether the page of a release can be opened without care: whether it is the one of its files.

Whether every file is one that releases have, and each picture and model is of its product.
"""

from __future__ import annotations

from tracecloak.pipelines.verification.data import Contents
from tracecloak.pipelines.verification.findings import NotApplicable, Unsure, Wrong, shown
from tracecloak.pipelines.verification.folder import ReceivedFolder
from tracecloak.schemas.published.manifest import MANIFEST_NAME, OutputFile
from tracecloak.transforms.publish.names import DFG_NAME, REPORT_NAME, STATEMENT_NAME
from tracecloak.transforms.publish.products import kind_of
from tracecloak.transforms.publish.report import report_html


def check_page(contents: Contents) -> str:
    """The page is made again of the manifest and the data files, and has the same bytes.

    What a browser does with a page that anybody could have written is not judged by reading it:
    browsers take too much for a command. A page with other bytes than ours is not trusted.

    Raises:
        Wrong: It has other bytes, or cannot be made again, as the data cannot be read.
        Unsure: It has, and is by another version, or of what this installation cannot read back.
        NotApplicable: There is none.
    """
    received = contents.received
    if REPORT_NAME not in received.paths:
        raise NotApplicable(f"There is no {REPORT_NAME}.")
    try:
        page = received.folder.read(REPORT_NAME)
        again = f"{REPORT_NAME} was made again of {MANIFEST_NAME} and the data: it is the same "
        if page == _page_of(contents):
            return (
                f"{again}bytes. It runs no script but tracecloak's own, asks no server, and shows "
                "what the files hold."
            )
        if b'id="libraries"' in page and page == _page_of(contents, shares=True):
            return f"{again}bytes. {_shared_text(received.folder, page)}"
        _require_judgeable(contents)
    except Unsure as reason:
        raise Unsure(
            f"{REPORT_NAME} is not shown to be confined. {reason} The page may run scripts and ask "
            "servers: open it only where there is no network and nothing to lose."
        ) from None
    except Wrong as wrong:
        raise Wrong(
            f"{REPORT_NAME} cannot be made again, do not open it in a browser. {wrong.sentence}"
        ) from None
    raise Wrong(
        f"{REPORT_NAME} is not the page of these files: it may run scripts, ask servers and show "
        "what they do not hold. Do not open it in a browser."
    )


def _shared_text(folder: ReceivedFolder, page: bytes) -> str:
    """Says whether the scripts that a page of ours shares with others are tracecloak's own.

    Raises:
        Unsure: One is there and is another.
    """
    from tracecloak.transforms.pages.shared import STATIC_NAME, is_what_it_says, shared_files

    missing = []
    for name in shared_files(page):
        there = folder.beside(STATIC_NAME, name)
        if there is None:
            missing.append(name)
        elif not is_what_it_says(name, there):
            raise Unsure(f"{shown([name])} beside the release is not what its name says: remove it")
    text = f"It runs tracecloak's own scripts alone, some in {STATIC_NAME} beside the release"
    if missing:
        return f"{text}, where {', '.join(missing)} is missing: without it the page draws nothing."
    return f"{text}, and shows what the files hold."


def _page_of(contents: Contents, shares: bool = False) -> bytes:
    received = contents.received
    files = [OutputFile(**output) for output in received.outputs if output["path"] != REPORT_NAME]
    products = [product for product in contents.products.values() if product is not None]
    log = contents.counted if contents.logs else None
    return report_html(received.manifest, files, products, log, shares)


def _require_judgeable(contents: Contents) -> None:
    """Looks whether a genuine page could have other bytes than the one that was made here.

    Raises:
        Unsure: It could.
    """
    received = contents.received
    if not received.is_by_this_version:
        raise Unsure(f"It is by tracecloak {received.version}, which alone can make it again.")
    if None in contents.products.values():
        raise Unsure("This installation cannot read back all that the page was made of.")
    contents.require_names()


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
