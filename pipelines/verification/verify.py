"""The checks of a received release, and the page that an officer signs."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any, Literal

from tracecloak.pipelines.verification import promise
from tracecloak.pipelines.verification.data import Contents, check_steps
from tracecloak.pipelines.verification.folder import (
    Finding,
    NotApplicable,
    ReceivedFolder,
    Unsure,
    Wrong,
    is_of_machine,
    quote_names,
)
from tracecloak.pipelines.verification.received import Received
from tracecloak.schemas.errors import UsageError
from tracecloak.schemas.published.manifest import (
    MANIFEST_NAME,
    SIGNATURE_NAMES,
    OutputFile,
    ReleaseManifest,
)
from tracecloak.transforms.keys.signing import SIGNATURE_BYTES, PublicKey
from tracecloak.transforms.pages.page import Page, rendered
from tracecloak.transforms.publish.products import called, kind_of
from tracecloak.transforms.publish.release_folder import DFG_NAME, REPORT_NAME, STATEMENT_NAME
from tracecloak.transforms.publish.report import report_html
from tracecloak.transforms.publish.statement import caution, facts_of, printable, shortened

# --- Whether the page of a release can be opened without care: whether it is the one of its files.
# Whether every file is one that releases have, and each picture and model is of its product.


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
        # A genuine page could have other bytes than the one that was made here.
        if not received.is_by_this_version:
            raise Unsure(f"It is by tracecloak {received.version}, which alone can make it again.")
        if None in contents.products.values():
            raise Unsure("This installation cannot read back all that the page was made of.")
        contents.require_names()
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
    from tracecloak.transforms.pages.page import STATIC_NAME, is_what_it_says, shared_files

    missing = []
    for name in shared_files(page):
        there = folder.beside(STATIC_NAME, name)
        if there is None:
            missing.append(name)
        elif not is_what_it_says(name, there):
            raise Unsure(
                f"{quote_names([name])} beside the release is not what its name says: remove it"
            )
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


def check_pictures(contents: Contents) -> str:
    """Each picture and each model is made again of its product, and has the same bytes.

    A picture is opened in a browser as a page is, so that its bytes alone show what it does there.

    Raises:
        Wrong: A file has other bytes, or no release has a file of that name.
        Unsure: The same, but another version made the release, or it is of a product that this
            installation lacks.
        NotApplicable: There is neither a picture nor a model.
    """
    received, manifest = contents.received, contents.received.manifest
    # The files that other checks look at.
    known = {STATEMENT_NAME, REPORT_NAME, *(path for form in contents.logs for path in form.paths)}
    known |= {f"{name}.{ending}" for name in contents.products for ending in ("parquet", "json")}
    known |= {DFG_NAME} if contents.logs else set()
    others = [path for path in received.paths if path not in known]
    if not others:
        raise NotApplicable("There is no picture of a graph or tree, and no model.")
    expected: dict[str, bytes] = {}
    for name, product in contents.products.items():
        if product is not None:
            title = f"{manifest.release_id}: {name}"
            sentence = manifest.guarantee.sentence
            files = called(kind_of(product).forms, product, title, sentence) or {}
            expected |= {f"{name}.{ending}": data for ending, data in files.items()}
    unlike = [
        path for path in others if path in expected and received.folder.read(path) != expected[path]
    ]
    strange = [path for path in others if path not in expected]
    if received.is_by_this_version:
        # A format or a product can be of another distribution, which is not here.
        open_names = {"log", *(name for name, of in contents.products.items() if of is None)}
        if lost := [path for path in strange if path.partition(".")[0] not in open_names]:
            raise Wrong(f"No release has such a file, do not open it: {quote_names(lost)}.")
        if unlike:
            raise Wrong(
                f"Other than the data gives, do not open it in a browser: {quote_names(unlike)}."
            )
    if strange or unlike:
        raise Unsure(
            f"Not known to this installation, do not open it in a browser: "
            f"{quote_names([*strange, *unlike])}. {MANIFEST_NAME} says that tracecloak "
            f"{received.version} made it."
        )
    return (
        f"Pictures and models were made again of the data: {len(others):,} files, the same bytes."
    )


# --- All checks of a received release, one after the other: none stands in the way of the others. -
# Whether the manifest is signed, by whom, and whether that is who the recipient trusts.
#
# Whether the folder holds what the manifest lists, as it lists it, and nothing else.
#
# The page on which a privacy officer decides about a release that was verified: from it alone.


Verdict = Literal["ok", "failed", "unsure"]


@dataclass(frozen=True)
class Verification:
    """What was found of a release.

    Attributes:
        folder: Where it is.
        findings: Of each check, in their order.
        sentence: The promise of the release, as its manifest has it; None: that is not valid.
        caution: How little its epsilon promises; empty where that is small, or there is none.
        received: The release with its manifest, if that is valid.
    """

    folder: str
    findings: tuple[Finding, ...]
    sentence: str | None
    caution: str = ""
    received: Received | None = None

    @property
    def verdict(self) -> Verdict:
        """`failed` if a check failed, else `unsure` if one could not be decided here, else `ok`."""
        states = {finding.state for finding in self.findings}
        return "failed" if "failed" in states else "unsure" if "unsure" in states else "ok"

    @property
    def holds(self) -> bool:
        """Whether every check that applies was decided, and none failed."""
        return self.verdict == "ok"

    def to_json(self) -> dict[str, Any]:
        """Returns it as JSON values."""
        return {
            "release": self.folder,
            "holds": self.holds,
            "verdict": self.verdict,
            "promise": self.sentence,
            "caution": self.caution,
            "checks": [asdict(finding) for finding in self.findings],
        }


def verify(path: str, key: str | None = None) -> Verification:
    """Checks a release.

    Args:
        path: Its folder, or one of releases, whose latest is meant; on any Beam file system.
        key: The public key of whoever must have signed it: a file in PEM, or a reference; None:
            no key is trusted, and the release need not be signed.

    Raises:
        InputSchemaError: There is no release.
        UsageError: The key is not a public key, or the file system is not known.
        RetryLater: The source of the key does not answer now.
    """
    trusted = None if key is None else PublicKey.given(key)
    folder = ReceivedFolder.at(path)
    valid: list[Received] = []

    def check_manifest() -> str:
        valid.append(Received.of(folder))
        return f"{MANIFEST_NAME} is as its schema asks."

    findings = [
        _finding("manifest", check_manifest),
        _finding("signature", partial(check_signature, folder, trusted)),
    ]
    if not valid:
        reason = f"{MANIFEST_NAME} cannot be relied on."
        findings += [Finding(check, "not applicable", reason) for check in (*_OF_EVERY, *_OF_DATA)]
        return Verification(folder.path, tuple(findings), None)
    [release] = valid
    checks = {name: partial(check, release) for name, check in _OF_EVERY.items()}
    if release.is_stream:
        checks["data"] = partial(check_steps, release)
    else:
        contents = Contents(release)
        checks |= {name: partial(check, contents) for name, check in _OF_DATA.items()}
    is_changed = False
    for name, does in checks.items():
        if is_changed and name not in ("leftovers", "method", "budget"):
            changed = "The files are not those that were released."
            findings.append(Finding(name, "not applicable", changed))
        else:
            findings.append(_finding(name, does))
        is_changed |= name == "files" and findings[-1].state == "failed"
    warning = ""
    with contextlib.suppress(Exception):  # made to break readers, which checks have found
        warning = caution(release.manifest.guarantee)
    sentence = release.body["guarantee"]["sentence"]
    return Verification(folder.path, tuple(findings), sentence, warning, release)


_NOT_CHECKED = (
    "Not checked: this machine had too little memory or time, or could not read ({}). Verify it on "
    "a larger one, or again."
)


def _finding(check: str, does: Callable[[], str]) -> Finding:
    try:
        return Finding(check, "ok", does())
    except (Wrong, Unsure, NotApplicable) as found:
        return Finding(check, found.state, getattr(found, "sentence", str(found)))
    except Exception as error:  # of a file that was made to break readers; its text may quote it
        if is_of_machine(error):
            return Finding(check, "unsure", _NOT_CHECKED.format(type(error).__name__))
        text = f"The check ended with {type(error).__name__}: a file is not as releases have it."
        return Finding(check, "failed", text)


_SIGNATURE, _PUBLIC = SIGNATURE_NAMES
_LARGEST_KEY = 4096


def check_signature(folder: ReceivedFolder, trusted: PublicKey | None) -> str:
    """The manifest is signed, by the trusted key if there is one.

    Raises:
        Wrong: The signature does not hold, or is missing although a key is trusted.
        NotApplicable: There is no signature, and nobody asked for one.
    """
    is_signed, has_key = (name in folder.sizes for name in SIGNATURE_NAMES)
    if not is_signed and not has_key and trusted is None:
        raise NotApplicable(
            "The release is not signed: nothing shows who made it, or that it was not replaced."
        )
    if not is_signed:
        raise Wrong(f"There is no {_SIGNATURE}: nobody signed the release.")
    signature = folder.read(_SIGNATURE, _LARGEST_KEY)
    pem = folder.read(_PUBLIC, _LARGEST_KEY) if has_key else None
    if len(signature) != SIGNATURE_BYTES:
        raise Wrong(f"{_SIGNATURE} is no signature of ed25519, which has {SIGNATURE_BYTES} bytes.")
    public, whose = trusted, "the key that you trust"
    if public is None:
        whose = f"the key in {_PUBLIC}"
        if pem is None:
            raise Wrong(f"There is a {_SIGNATURE} but no {_PUBLIC}: name the public key as key.")
        try:
            public = PublicKey.from_text(pem, _PUBLIC)
        except UsageError:
            raise Wrong(f"{_PUBLIC} is no public key of ed25519 in PEM.") from None
    if not public.signed(folder.manifest, signature):
        raise Wrong(
            f"{_SIGNATURE} is not by {whose}, with fingerprint {public.fingerprint}, or "
            f"{MANIFEST_NAME} was changed."
        )
    if pem not in (None, public.pem):
        raise Wrong(f"{_PUBLIC} is not {whose}, in PEM and nothing else.")
    if trusted is not None:
        return f"Signed by {whose}, with fingerprint {public.fingerprint}."
    return (
        f"Signed by the key with fingerprint {public.fingerprint}, which you have not said you "
        "trust. Compare the fingerprint with the publisher's, or name theirs as key."
    )


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
        raise Wrong(f"No part of the release: {quote_names(others)}. Ask who sent it.")
    return "The folder holds nothing else."


# The checks of a release whose manifest is valid, by their names, in their order: of a stream, too,
# and of files with data.
_OF_EVERY: Mapping[str, Callable[[Received], str]] = {
    "files": Received.check_files,
    "leftovers": check_leftovers,
    "statement": promise.check_statement,
    "copies": promise.check_copies,
    "method": promise.check_method,
    "budget": promise.check_budget,
}
_OF_DATA: Mapping[str, Callable[[Contents], str]] = {
    "data": Contents.check_readable,
    "forms": Contents.check_forms,
    "numbers": Contents.check_numbers,
    "property": Contents.check_property,
    "pictures": check_pictures,
    "page": check_page,
}
_LONGEST_TEXT = 1200


def sign_off_html(verified: Verification, received: Received) -> bytes:
    """Returns the page: of the manifest and of what was found alone, so the log is not needed.

    Texts of the manifest are shown in a line each, cut where they are long, and without characters
    that steer.

    Args:
        verified: What was found of a release; no check failed.
        received: That release.
    """
    body = _plain(received.body)
    context = {
        **facts_of(ReleaseManifest.from_json(body)),
        "body": body,
        "verified": verified,
        "digest": received.folder.manifest_sha256,
    }
    styles = ("promise.css", "sign-off.css")
    title = f"Sign-off of {body['release_id']}"
    return rendered(Page("sign-off.html.j2", title, (), context, styles=styles))


def _plain(value: Any) -> Any:
    """Returns JSON values whose texts are short lines without characters that steer."""
    if isinstance(value, str):
        return shortened(printable(value), _LONGEST_TEXT)
    if isinstance(value, dict):
        return {printable(key): _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, list) else value
