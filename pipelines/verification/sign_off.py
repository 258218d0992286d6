"""The page on which a privacy officer decides about a release that was verified: from it alone."""

from __future__ import annotations

import hashlib
from typing import Any

from tracecloak.pipelines.verification.folder import strict_json
from tracecloak.pipelines.verification.received import Received
from tracecloak.pipelines.verification.verify import Verification
from tracecloak.schemas.errors import InputSchemaError
from tracecloak.schemas.published.manifest import MANIFEST_NAME, ReleaseManifest
from tracecloak.transforms.pages.page import Page, rendered
from tracecloak.transforms.publish.report import facts_of
from tracecloak.transforms.publish.wording import printable, shortened

_LONGEST_TEXT = 1200


def sign_off_html(verified: Verification, received: Received) -> bytes:
    """Returns the page: of the manifest and of what was found alone, so the log is not needed.

    Texts of the manifest are shown in a line each, cut where they are long, and without characters
    that steer.

    Args:
        verified: What was found of a release; no check failed.
        received: That release.

    Raises:
        InputSchemaError: Its manifest changed meanwhile.
    """
    data = received.folder.read(MANIFEST_NAME)
    if strict_json(data) != received.body:
        raise InputSchemaError(f"{MANIFEST_NAME} changed while it was verified; verify it again")
    body = _plain(received.body)
    context = {
        **facts_of(ReleaseManifest.from_json(body)),
        "body": body,
        "verified": verified,
        "digest": hashlib.sha256(data).hexdigest(),
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
