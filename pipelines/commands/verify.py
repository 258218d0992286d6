"""`tracecloak verify`: checks a release for who received it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from tracecloak.pipelines.commands.flags import file_to_write
from tracecloak.pipelines.commands.table import Given
from tracecloak.pipelines.screen.results import Result, show
from tracecloak.schemas.errors import GuaranteeError, UsageError

if TYPE_CHECKING:
    from tracecloak.pipelines.verification.verify import Verification

UNSURE_EXIT_CODE = 8
"""No check failed, and there is one that this installation cannot decide."""

_MARKS = {"ok": "ok", "failed": "FAILED", "unsure": "UNSURE", "not applicable": "n/a"}


def run(given: Given) -> int:
    """Shows a row for each check; the exit code is 5 if one fails, else 8 if one is undecided."""
    from tracecloak.pipelines.verification.verify import verify

    verified = verify(given.flags["release"], given.flags.get("key"))
    rows = [
        (f"{_MARKS[finding.state]:<7}{finding.check}", finding.sentence)
        for finding in verified.findings
    ]
    if verified.sentence is not None:
        rows.append(("promise", verified.sentence))
    if verified.caution:
        rows.append(("caution", verified.caution))
    body = verified.to_json()
    if "sign_off" in given.flags:
        page = body["sign_off"] = _sign_off(verified, given.flags["sign_off"])
        signed = f"{page}, to open in a browser, print and sign"
        rows.append(("sign-off", _UNSIGNED if page is None else signed))
    show(Result(rows, body, below=[_VERDICTS[verified.verdict]]), given.form)
    return _EXIT_CODES[verified.verdict]


def _sign_off(verified: Verification, path: str) -> str | None:
    """Writes the page to sign and returns its path, or None where nobody should sign."""
    from tracecloak.pipelines.verification.verify import sign_off_html

    if verified.received is None or verified.verdict == "failed":
        return None
    if Path(verified.folder).resolve() in Path(path).resolve().parents:
        raise UsageError(
            f"sign_off {path!r} is in the folder of the release; name a file outside of it"
        )
    place = file_to_write("sign_off", path)
    place.write_bytes(sign_off_html(verified, verified.received))
    return str(place)


_UNSIGNED = "not written: nobody should sign for a release of which something does not hold"
_EXIT_CODES = {"ok": 0, "failed": GuaranteeError.exit_code, "unsure": UNSURE_EXIT_CODE}
_VERDICTS = {
    "ok": "All that can be checked holds. No file can show how the noise was drawn.",
    "failed": "Something does not hold: do not use this release before you know why.",
    "unsure": "Not everything could be checked here: what is UNSURE may do or say anything.",
}
