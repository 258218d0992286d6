"""All checks of a received release, one after the other: none stands in the way of the others."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, Literal

from tracecloak.pipelines.verification.findings import (
    Finding,
    NotApplicable,
    State,
    Unsure,
    Wrong,
)
from tracecloak.pipelines.verification.folder import ReceivedFolder
from tracecloak.pipelines.verification.listed import check_files, check_leftovers
from tracecloak.pipelines.verification.received import Received
from tracecloak.pipelines.verification.signature import check_signature
from tracecloak.schemas.published.manifest import MANIFEST_NAME
from tracecloak.transforms.keys.signing import PublicKey
from tracecloak.transforms.publish.promise import caution

_OF_MANIFEST = (
    "files",
    "leftovers",
    "statement",
    "copies",
    "method",
    "budget",
    "data",
    "forms",
    "numbers",
    "property",
    "pictures",
    "page",
)

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
    findings: list[Finding] = []

    def look(check: str, does: Callable[[], str]) -> State:
        finding = _finding(check, does)
        findings.append(finding)
        return finding.state

    received: list[Received] = []

    def manifest() -> str:
        received.append(Received.of(folder))
        return f"{MANIFEST_NAME} is as its schema asks."

    look("manifest", manifest)
    look("signature", lambda: check_signature(folder, trusted))
    if not received:
        reason = f"{MANIFEST_NAME} cannot be relied on."
        findings += [Finding(check, "not applicable", reason) for check in _OF_MANIFEST]
        return Verification(folder.path, tuple(findings), None)
    release = received[0]
    files = look("files", lambda: check_files(release))
    look("leftovers", lambda: check_leftovers(release))
    of_files = _checks_of_files(release)
    for check, does in of_files.items():
        if files == "failed" and check not in ("method", "budget"):
            findings.append(
                Finding(check, "not applicable", "The files are not those that were released.")
            )
        else:
            look(check, does)
    sentence = release.body["guarantee"]["sentence"]
    return Verification(folder.path, tuple(findings), sentence, _caution(release), release)


def _caution(release: Received) -> str:
    try:
        return caution(release.manifest.guarantee)
    except Exception:  # of a manifest that was made to break readers, which checks have found
        return ""


def _checks_of_files(release: Received) -> dict[str, Callable[[], str]]:
    from tracecloak.pipelines.verification import promise
    from tracecloak.pipelines.verification.data import Contents
    from tracecloak.pipelines.verification.page import check_page
    from tracecloak.pipelines.verification.pictures import check_pictures
    from tracecloak.pipelines.verification.steps import check_steps

    of_promise: dict[str, Callable[[], str]] = {
        "statement": lambda: promise.check_statement(release),
        "copies": lambda: promise.check_copies(release),
        "method": lambda: promise.check_method(release),
        "budget": lambda: promise.check_budget(release),
    }
    if release.is_stream:
        return {**of_promise, "data": lambda: check_steps(release)}
    contents = Contents(release)
    return {
        **of_promise,
        "data": contents.check_readable,
        "forms": contents.check_forms,
        "numbers": contents.check_numbers,
        "property": contents.check_property,
        "pictures": lambda: check_pictures(contents),
        "page": lambda: check_page(contents),
    }


def _finding(check: str, does: Callable[[], str]) -> Finding:
    try:
        return Finding(check, "ok", does())
    except Wrong as wrong:
        return Finding(check, "failed", _sentence(str(wrong)))
    except Unsure as reason:
        return Finding(check, "unsure", str(reason))
    except NotApplicable as reason:
        return Finding(check, "not applicable", str(reason))
    except Exception as error:  # of a file that was made to break readers; its text may quote it
        text = f"The check ended with {type(error).__name__}: a file is not as releases have it."
        return Finding(check, "failed", text)


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:] if text.startswith("is ") else text
