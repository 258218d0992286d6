"""`tracecloak report`: a release beside its log, on a page for its operator alone."""

from __future__ import annotations

import contextlib
from pathlib import Path

from tracecloak.pipelines.commands.flags import file_to_write, listed
from tracecloak.pipelines.commands.table import Given
from tracecloak.pipelines.screen.results import Result, show, showing_progress
from tracecloak.schemas.errors import TracecloakError, UsageError


def run(given: Given) -> int:
    """Writes the page, for nobody else to read, and says where it is."""
    from tracecloak.examination.evaluation.internal import attack_of, internal_report
    from tracecloak.examination.evaluation.origin import opened, share_noted_in
    from tracecloak.pipelines.budget.opening import officers_ledger
    from tracecloak.transforms.files import absolute, make_private_folder, write_private

    flags = dict(given.flags)
    account, attack = flags.pop("account"), flags.pop("attack", None)
    curve, no_linkage = listed(flags.pop("curve", "")), flags.pop("no_linkage", False)
    output = flags.pop("output", None)
    release, original, store, url = opened(flags)
    if output is None:
        home = str(Path(absolute(release.folder.path)).parent)
        folder = store.operator_folder(home, release.body["release_id"])
        make_private_folder(Path(folder))
        output = str(Path(folder) / "report.html")
    path = file_to_write("output", output)
    try:
        attack_json = None if attack is None else attack_of(attack)
    except (OSError, ValueError, RecursionError) as error:
        raise UsageError(
            f"attack {attack!r} is no report of `tracecloak attack config`: name its JSON file"
        ) from error
    entries = balance = None
    # A page without the budget is of use, too, unless a ledger was asked for.
    with contextlib.nullcontext() if url else contextlib.suppress(TracecloakError):
        ledger = officers_ledger(store, url)
        entries = [entry for entry in ledger.entries() if entry.account == account]
        balance = ledger.balance(account)
    noted, has_linkage = share_noted_in(store, url), not no_linkage
    rest = noted, entries, balance, has_linkage, curve, attack_json
    with showing_progress(given.form):
        page = internal_report(original, release, *rest)
    write_private(path, page)
    digest = release.folder.manifest_sha256
    rows = [
        ("report", f"{path}, to open in a browser"),
        ("manifest", f"the page judges the release whose manifest has SHA-256 {digest}"),
        ("not private", "it was computed on the original log: for the operator only"),
    ]
    show(Result(rows, {"report": str(path), "manifest_sha256": digest}), given.form)
    return 0
