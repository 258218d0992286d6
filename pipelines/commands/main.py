"""The command `tracecloak`.

This module and those whose names begin with `cli_` are the only ones that parse flags and print.
"""

from __future__ import annotations

import argparse
import json
import logging
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tracecloak.pipelines.commands.flags import (
    add_comparison_flags,
    add_experiment_flags,
    add_linkage_flags,
    add_reading_flags,
    add_release_flags,
    help_text,
)
from tracecloak.pipelines.commands.reports import (
    attack,
    compare_methods,
    evaluate_release,
    experiment_on_logs,
    linkage_attack,
    mine_release,
)
from tracecloak.pipelines.commands.stream import add_stream_flags, publish
from tracecloak.schemas.errors import TracecloakError, UsageError

_OF_THE_IMPORT = ("apitools not found", "Failed to import GCSFileSystem")


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command and returns its exit code.

    0 ok; 2 usage or configuration; 3 input schema; 4 budget exhausted; 5 guarantee cannot be met;
    6 pipeline failed and nothing was released; 7 released but a later step failed.
    """
    _quiet_beam_import()
    argv = list(sys.argv[1:] if arguments is None else arguments)
    wants_traceback = "--traceback" in argv
    argv = [argument for argument in argv if argument != "--traceback"]
    try:
        return _run(argv, wants_traceback)
    except TracecloakError as error:
        if wants_traceback:
            traceback.print_exc()
        print(f"tracecloak: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print("tracecloak: interrupted; nothing was released", file=sys.stderr)
        return TracecloakError.exit_code


def _run(argv: list[str], wants_traceback: bool) -> int:
    # Beam and its file systems are imported by the commands that need them.
    config = None
    is_linkage = argv[:1] == ["attack"] and "--linkage" in argv
    with_config = (["release"], ["plan"], ["attack"], ["stream"])
    takes_config = argv[:1] in with_config and not is_linkage
    if takes_config and len(argv) > 1 and not argv[1].startswith("-"):
        config = argv.pop(1)
    parser = _parser(argv, config)
    known, rest = parser.parse_known_args(argv)
    flags = {k: v for k, v in vars(known).items() if v is not None and k != "command"}
    if known.command in ("release", "plan"):
        ours = [f"--{name}" for name in vars(known)]
        return _release(known.command, config, flags, rest, ours, wants_traceback)
    if known.command == "stream":
        return publish(config, flags, rest, [f"--{n}" for n in vars(known)], wants_traceback)
    if rest:
        raise UsageError(f"unknown flag {rest[0]}")
    if known.command == "attack":
        return linkage_attack(flags) if is_linkage else attack(config, flags)
    if known.command == "evaluate":
        return evaluate_release(flags)
    if known.command == "mine":
        return mine_release(flags)
    if known.command == "compare":
        return compare_methods(flags)
    if known.command == "experiment":
        return experiment_on_logs(flags)
    if known.command == "sample":
        return _sample(flags["cases"], flags["output"], flags.get("vocabulary"))
    if known.command == "key":
        return _key(Path(flags["output"]))
    if known.command == "ledger":
        return _ledger(**flags)
    return _catalogue(bool(flags.get("json")))


def _quiet_beam_import() -> None:
    """Drops what Beam logs when it is imported without all libraries of Google Cloud."""
    handler = logging.StreamHandler()
    handler.addFilter(lambda record: not record.getMessage().startswith(_OF_THE_IMPORT))
    logging.getLogger().addHandler(handler)


# --- Flags ------------------------------------------------------------------------------------


class _Parser(argparse.ArgumentParser):
    """Reports a wrong command line the way every other error is reported."""

    def error(self, message: str) -> Any:
        raise UsageError(f"{message}; see {self.prog} --help")


def _parser(argv: Sequence[str], config: str | None) -> argparse.ArgumentParser:
    parser = _Parser(
        prog="tracecloak",
        description="Anonymises process-mining event logs.",
        epilog="--traceback shows where an error arose; that output can hold private data.",
        allow_abbrev=False,
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    def command(name: str, text: str) -> argparse.ArgumentParser:
        return commands.add_parser(name, help=text, description=text, allow_abbrev=False)

    asked = argv[0] if argv else None
    for name, text in (
        ("release", "make one release of a log"),
        ("plan", "show what a release would read, do, spend and write"),
        ("attack", "audit a release's configuration by attacks (for the operator only)"),
    ):
        added = command(name, text)
        of_beam = "" if name == "attack" else " [FLAG OF BEAM ...]"
        added.usage = f"tracecloak {name} [CONFIG.yaml] [FLAG ...]{of_beam}"
        if name == "attack" and "--linkage" in argv:
            added.usage = (
                "tracecloak attack --linkage --original LOG --released RELEASE [RELEASE ...] "
                "--report FILE.json [FLAG ...]"
            )
            add_linkage_flags(added)
            continue
        if name == "attack":
            added.add_argument(
                "--linkage",
                action="store_true",
                default=None,
                help="attack finished releases by what somebody may know of a case instead; see "
                "attack --linkage --help",
            )
            added.add_argument(
                "--releases",
                type=int,
                help="releases of each log of a pair (default 20,000; fewer where they take long)",
            )
            added.add_argument(
                "--report", required=True, help="JSON file to write; FILE.md is written beside it"
            )
        if name == asked:
            add_release_flags(added, argv, config)
    stream = command("stream", "publish what closes in a stream of events, step by step")
    if asked == "stream":
        add_stream_flags(stream)
    evaluate = command("evaluate", "compare a release with its original (for the operator only)")
    if asked == "evaluate":
        add_reading_flags(evaluate)
        evaluate.add_argument("--original", required=True, help="path or glob of the original log")
        evaluate.add_argument(
            "--released", required=True, help="folder of a release, or of releases"
        )
        evaluate.add_argument("--output", required=True, help="JSON file to write")
    mine = command("mine", "mine a process tree of a release, at no cost to privacy")
    mine.add_argument("--released", required=True, help="folder of a release, or of releases")
    mine.add_argument("--output", required=True, help="folder to write the tree's files to")
    mine.add_argument(
        "--miner",
        help="precise (default): ours, of a log or a graph; inductive or infrequent: pm4py's, of a "
        "log",
    )
    compare = command(
        "compare", "compare methods at the same true epsilon on logs (for the operator only)"
    )
    if asked == "compare":
        add_comparison_flags(compare)
    experiment = command("experiment", "run a paper's evaluation on logs (for the operator only)")
    if asked == "experiment":
        add_experiment_flags(experiment, argv)
    sample = command("sample", "write a synthetic hospital log of any size")
    sample.add_argument("--cases", type=int, required=True, help="number of cases")
    sample.add_argument(
        "--output",
        required=True,
        help="file to write: .xes, .csv or .jsonl, each also with .gz, .parquet or .avro",
    )
    sample.add_argument(
        "--vocabulary", help="file to write its activities to, which are public, one a line"
    )
    key = command("key", "write a fresh release key for pipelines of your own")
    key.add_argument("action", choices=["new"], help="new: make a key")
    key.add_argument("--output", required=True, help="file to write; it must not exist")
    ledger = command("ledger", "show, verify or export the ledger of privacy budgets")
    ledger.add_argument(
        "action",
        choices=["show", "verify", "export"],
        help="show: accounts, and how many more releases fit; verify: the hash chain; "
        "export: all entries as JSON lines",
    )
    ledger.add_argument("--ledger", help="SQLAlchemy URL; by default the file in the key store")
    ledger.add_argument("--key_store", help="folder of keys and receipts, and of that file")
    ledger.add_argument("--accounts", help="YAML file with the caps of the accounts")
    ledger.add_argument("--account", help="show this account only")
    ledger.add_argument("--json", action="store_true", default=None, help="show as JSON")
    catalogue = command("catalogue", "list the methods, their parameters and what they promise")
    catalogue.add_argument("--json", action="store_true", default=None, help="as JSON")
    return parser


# --- Commands ---------------------------------------------------------------------------------


def _release(
    command: str,
    config_path: str | None,
    flags: dict[str, Any],
    rest: list[str],
    ours: list[str],
    wants_traceback: bool,
) -> int:
    from tracecloak.pipelines.commands.plan import plan_lines
    from tracecloak.pipelines.commands.progress import showing_progress
    from tracecloak.pipelines.release.config import load
    from tracecloak.pipelines.release.run import run_release
    from tracecloak.pipelines.runners.options import keep_freed_memory, refuse_unknown

    keep_freed_memory()
    refuse_unknown(rest, ours)
    config = load(config_path, flags)
    if command == "plan":
        print("\n".join(plan_lines(config)))
        return 0
    with showing_progress(with_runner=wants_traceback):
        outcome = run_release(config, rest)
    done = "already released" if outcome.was_released_before else "released"
    print(f"{done}  {outcome.folder.final}")
    print(f"manifest  {outcome.folder.final}/manifest.json")
    return 0


def _sample(n_cases: int, path: str, vocabulary: str | None) -> int:
    from tracecloak.pipelines.demo.hospital_file import write_sample, write_vocabulary

    write_sample(n_cases, path)
    print(f"sample  {path}")
    if vocabulary is not None:
        write_vocabulary(vocabulary)
        print(f"vocabulary  {vocabulary}")
    return 0


def _key(path: Path) -> int:
    from tracecloak.pipelines.budget.key_store import new_key_file

    new_key_file(path)
    print(f"key  {path} (whoever has it can subtract the noise of its release)")
    return 0


def _ledger(
    action: str,
    ledger: str | None = None,
    key_store: str | None = None,
    accounts: str | None = None,
    account: str | None = None,
    json: bool = False,
) -> int:
    from tracecloak.pipelines.budget.accounts import load_accounts
    from tracecloak.pipelines.budget.key_store import KeyStore
    from tracecloak.pipelines.budget.ledger import Ledger
    from tracecloak.pipelines.commands.ledger import export, show, verify

    store = KeyStore(Path(key_store) if key_store else KeyStore.default_folder())
    opened = Ledger(ledger or store.ledger_url, {} if accounts is None else load_accounts(accounts))
    if action == "show":
        print(show(opened, account, json), end="")
    elif action == "export":
        print(export(opened), end="")
    else:
        found = verify(opened)
        print(found.text, end="")
        return 0 if found.is_sound else TracecloakError.exit_code
    return 0


def _catalogue(as_json: bool) -> int:
    from tracecloak.anonymizers.registry import METHODS

    entries = []
    for name, method in sorted(METHODS.items()):
        guarantee = method.guarantee(method.Params(**method.examples[0]))
        entries.append(
            {
                "name": name,
                "summary": method.summary,
                "guarantee": guarantee.kind,
                "statement": guarantee.sentence,
                "example": dict(method.examples[0]),
                "params": method.Params.model_json_schema()["properties"],
            }
        )
    if as_json:
        print(json.dumps(entries, indent=2))
        return 0
    for entry in entries:
        print(f"{entry['name']}  [{entry['guarantee']}]  {entry['summary']}")
        shown = ", ".join(f"{name} {value}" for name, value in entry["example"].items())
        print(f"    {entry['statement']}" + (f" (for {shown})" if shown else ""))
        for name, schema in entry["params"].items():
            print(f"    --{name} (default {schema.get('default')})")
            print(f"        {help_text(schema.get('description')).replace('%%', '%')}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
