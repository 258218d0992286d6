"""`tracecloak verify`: checks a release for who received it."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from tracecloak.pipelines.commands.table import Given
from tracecloak.pipelines.screen.results import Result, show
from tracecloak.schemas.errors import GuaranteeError

UNSURE_EXIT_CODE = 8
"""No check failed, and there is one that this installation cannot decide."""

_MARKS = {"ok": "ok", "failed": "FAILED", "unsure": "UNSURE", "not applicable": "n/a"}


def add_flags(parser: argparse.ArgumentParser, argv: Sequence[str], config: str | None) -> None:
    """Adds the release, the key and the report."""
    parser.add_argument(
        "release", metavar="RELEASE", help="folder of a release, or of releases, or of an epoch"
    )
    parser.add_argument(
        "--key",
        help="public key (PEM file, env:NAME or command:WORDS) of who must have signed; by default "
        "nobody must, and a signature is checked by the key beside it",
    )


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
    show(Result(rows, verified.to_json(), below=[_VERDICTS[verified.verdict]]), given.form)
    return _EXIT_CODES[verified.verdict]


_EXIT_CODES = {"ok": 0, "failed": GuaranteeError.exit_code, "unsure": UNSURE_EXIT_CODE}
_VERDICTS = {
    "ok": "Nothing speaks against this release.",
    "failed": "Something does not hold: do not use this release before you know why.",
    "unsure": "Not everything could be checked here: what is UNSURE may do or say anything.",
}
