"""`tracecloak verify`: checks a release for who received it."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence

from tracecloak.pipelines.commands.flags import file_to_write
from tracecloak.pipelines.commands.table import Given
from tracecloak.schemas.errors import GuaranteeError

_MARKS = {"ok": "ok", "failed": "FAILED", "not applicable": "n/a"}


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
    parser.add_argument(
        "--json",
        metavar="FILE",
        help="file to write what was found to, - to print it; by default nothing is written",
    )


def run(given: Given) -> int:
    """Prints a line for each check; the exit code is 5 if one fails."""
    from tracecloak.pipelines.verification.verify import verify

    report = given.flags.get("json")
    path = None if report in (None, "-") else file_to_write("json", report)
    found = verify(given.flags["release"], given.flags.get("key"))
    text = json.dumps(found.to_json(), indent=2, ensure_ascii=False) + "\n"
    if path is not None:
        path.write_text(text, encoding="utf-8")
    if report == "-":
        sys.stdout.write(text)
    else:
        for finding in found.findings:
            print(f"{_MARKS[finding.state]:<7} {finding.check:<10} {finding.sentence}")
        if found.sentence is not None:
            print(f"promise: {found.sentence}")
        print(_VERDICT[found.holds])
    return 0 if found.holds else GuaranteeError.exit_code


_VERDICT = {
    True: "Nothing speaks against this release.",
    False: "Something does not hold: do not use this release before you know why.",
}
