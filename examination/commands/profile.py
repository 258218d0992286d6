"""`tracecloak profile`: says what a log holds before it is released; for the operator only."""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path

from tracecloak.pipelines.commands.table import Given
from tracecloak.pipelines.screen.results import Result, show, showing_progress
from tracecloak.schemas.errors import UsageError, check_least

_MAX_RECORDS = 1_000_000


def run(given: Given) -> int:
    """Reads the log, writes the profile, and shows what is most to the point.

    Raises:
        UsageError: The file would lie where releases lie.
    """
    from tracecloak.examination.profile.profile import WARNING, profile
    from tracecloak.pipelines.configuration.config import load_log
    from tracecloak.pipelines.configuration.plan import source_of
    from tracecloak.transforms.files import write_private

    flags = dict(given.flags)
    given_records = flags.pop("max_records", None)
    max_records = _MAX_RECORDS if given_records is None else given_records
    check_least(1, max_records=max_records)
    path = _place(flags.pop("output", None), flags.pop("key_store", None), flags["log"])
    source = source_of(load_log(flags))
    with showing_progress(given.form):
        body, found = profile(source, max_records, sys.stdout.isatty())
    write_private(path, (json.dumps(body, indent=2, ensure_ascii=False) + "\n").encode())
    pasted = body["to_paste"].splitlines()
    rows = [
        *found,
        ("not private", WARNING),
        ("all of it", str(path)),
    ]
    below = ["", "To paste into a configuration:", "", *pasted] if pasted else []
    show(Result(rows, {**body, "file": str(path)}, below=below), given.form)
    return 0


def _place(output: str | None, key_store: str | None, log: str) -> Path:
    """Returns where the profile goes, which is no place that readers of releases see."""
    from tracecloak.pipelines.budget.opening import store_at
    from tracecloak.transforms.files import is_on_this_machine
    from tracecloak.transforms.publish.release_folder import holds_releases, release_around

    if output is None:
        name = f"profile-{hashlib.sha256(log.encode()).hexdigest()[:8]}.json"
        return store_at(key_store).path.absolute() / "operator" / name
    if not is_on_this_machine(output):
        raise UsageError(f"output {output!r} must be a file of this machine, for its owner alone")
    path = Path(output).resolve()
    around = release_around(str(path))
    public = next((str(one) for one in path.parents if holds_releases(str(one))), around)
    if public is not None:
        raise UsageError(
            f"output {output!r} lies in {public}, whose readers would find exact numbers of the "
            "log there; name another place with --output, or leave it out"
        )
    return path
