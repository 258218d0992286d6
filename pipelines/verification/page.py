"""Whether the page of a release can be opened without care, and is of this release."""

from __future__ import annotations

from html.parser import HTMLParser

from tracecloak.pipelines.verification.findings import NotApplicable, Wrong
from tracecloak.pipelines.verification.received import Received
from tracecloak.schemas.published.manifest import MANIFEST_NAME
from tracecloak.transforms.pages import is_confined
from tracecloak.transforms.publish.names import REPORT_NAME


def check_page(received: Received) -> str:
    """The page runs no script but tracecloak's, asks no server, and has the promise and the files.

    That its pictures show what the data files hold is not looked at.

    Raises:
        Wrong: It does, or has not.
        NotApplicable: There is none, or it is by another version.
    """
    if REPORT_NAME not in received.paths:
        raise NotApplicable(f"There is no {REPORT_NAME}.")
    if not received.is_by_this_version:
        raise NotApplicable(
            f"{REPORT_NAME} is by another version of tracecloak, whose scripts are not known here."
        )
    page = received.folder.read(REPORT_NAME)
    if not is_confined(page):
        raise Wrong(
            f"{REPORT_NAME} may run scripts that are not tracecloak's: do not open it in a browser."
        )
    words = _Words()
    words.feed(page.decode("utf-8", "replace"))
    if words.leads_away:
        raise Wrong(f"{REPORT_NAME} leads to another page by itself: do not open it in a browser.")
    text = " ".join(" ".join(words.found).split())
    sentence = " ".join(received.body["guarantee"]["sentence"].split())
    digests = [o["sha256"] for o in received.outputs if o["path"] != REPORT_NAME]
    if sentence not in text or not all(digest in text for digest in digests):
        raise Wrong(f"{REPORT_NAME} has not the promise and the digests of {MANIFEST_NAME}.")
    return (
        f"{REPORT_NAME} runs no script but tracecloak's own, asks no server, and has the promise "
        f"and the digests of {MANIFEST_NAME}. That its pictures show the files is not looked at."
    )


class _Words(HTMLParser):
    """The text of a page, scripts and styles aside."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self.leads_away = False
        self._is_hidden = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._is_hidden = tag in ("script", "style")
        if tag == "meta" and (dict(attrs).get("http-equiv") or "").lower() == "refresh":
            self.leads_away = True

    def handle_endtag(self, tag: str) -> None:
        self._is_hidden = False

    def handle_data(self, data: str) -> None:
        if not self._is_hidden:
            self.found.append(data)
