"""`tracecloak ledger`: what is read of the ledger of privacy budgets, and what an officer writes.

One action, one entry of `ACTIONS`: its help, the flags it has beside those that say where the
ledger is, and what it does. Flags are described once, in `_FLAGS`. Actions on a whole ledger take a
configuration, of a release or of a stream, and then mean its ledger and its key store.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tracecloak.pipelines.commands.flags import Action, add_actions
from tracecloak.pipelines.commands.table import Given
from tracecloak.pipelines.screen.results import Result, show
from tracecloak.schemas.errors import TracecloakError, UsageError

if TYPE_CHECKING:
    from tracecloak.pipelines.budget.unfinished import Ended
    from tracecloak.pipelines.keys.key_store import KeyStore
    from tracecloak.pipelines.ledger.officers_ledger import OfficersLedger

Flags = Mapping[str, Any]

_PLACES = ("ledger", "key_store", "key_encryption_key")
_SIGNED = ("by", "reason")
_FLAGS: Mapping[str, Mapping[str, Any]] = {
    "ledger": {
        "help": "SQLAlchemy URL, or env:NAME or file:PATH; by default the file in the key store"
    },
    "key_store": {
        "help": "folder of keys and receipts, and of that file; by default TRACECLOAK_KEY_STORE or "
        "one in the home folder"
    },
    "key_encryption_key": {
        "help": "where the key is that encrypts those in it: file:PATH, env:NAME or command:WORDS; "
        "by default TRACECLOAK_KEY_ENCRYPTION_KEY"
    },
    "accounts": {
        "help": "YAML file with caps that hold beside those of the ledger; by default only those do"
    },
    "account": {"help": "this account only; by default all"},
    "epsilon": {"required": True, "help": "cap on the sum of epsilons, a decimal, or none"},
    "delta": {"required": True, "help": "cap on the sum of deltas, a decimal, or none"},
    "unit": {
        "required": True,
        "choices": ["case", "individual", "event"],
        "help": "whom the caps protect",
    },
    "max_cases": {
        "type": int,
        "help": "public bound on the number of cases of the data set, which bounds delta; by "
        "default there is none",
    },
    "note": {"help": "what else to note beside it; by default nothing"},
    "output": {"required": True, "help": "folder of all releases that it lies in"},
    "release_id": {"required": True, "help": "name of the release"},
    "by": {"required": True, "help": "who does this, for the record"},
    "reason": {"required": True, "help": "why, for the record"},
    "before": {"help": "noted before this day, as 2026-12-31; by default whenever"},
    "backup": {"required": True, "help": "file that `tracecloak ledger backup` made"},
    "book": {"help": "folder of earlier versions' unit files; by default that in the key store"},
    "name": {"help": "its name"},
}


def _flags(*names: str, **changes: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """Returns arguments of `_FLAGS` and those of the place, with what differs in them by name."""
    return {
        "name" if name == "name" else f"--{name}": {**_FLAGS[name], **changes.get(name, {})}
        for name in (*names, *_PLACES)
    }


def add_flags(parser: argparse.ArgumentParser, argv: Sequence[str], config: str | None) -> None:
    """Adds the actions, each with its own flags."""
    for name, action_parser in add_actions(parser, {n: a.help for n, a in ACTIONS.items()}):
        flags = ACTIONS[name].flags
        if "name" not in flags:
            action_parser.usage = f"tracecloak ledger {name} [CONFIG] [FLAG ...]"
        for flag, options in flags.items():
            action_parser.add_argument(flag, **options)


def run(given: Given) -> int:
    """Does what is asked for; a ledger that is not sound ends with an exit code."""
    action, flags = given.flags["action"], given.flags
    if given.config is not None:
        from tracecloak.pipelines.configuration.config import read_yaml

        body = read_yaml(given.config)
        named = {n: body[n] for n in (*_PLACES, "accounts", "book") if body.get(n) is not None}
        for name, value in named.items():
            if not isinstance(value, str):
                raise UsageError(f"{name}: expected text in {given.config}, got {value!r}")
        flags = named | flags
    result = ACTIONS[action].run(flags)
    if action == "export" and given.form == "json":  # its lines are JSON already
        show(result, "table")
    else:
        show(result, given.form)
    return 0 if result.data.get("is_sound", True) else TracecloakError.exit_code


def _store(flags: Flags) -> KeyStore:
    from tracecloak.pipelines.budget.opening import store_at

    return store_at(flags.get("key_store"), key_encryption_key=flags.get("key_encryption_key"))


def _opened(flags: Flags, **how: bool) -> OfficersLedger:
    from tracecloak.pipelines.budget.opening import officers_ledger
    from tracecloak.pipelines.ledger.caps import load_accounts

    accounts = flags.get("accounts")
    return officers_ledger(
        _store(flags),
        flags.get("ledger"),
        None if accounts is None else load_accounts(accounts),
        **how,
    )


def _show(flags: Flags) -> Result:
    return _shown(_opened(flags), flags.get("account"))


def _shown(ledger: OfficersLedger, account: str | None) -> Result:
    from tracecloak.pipelines.ledger.reading import show, show_json

    return Result((), show_json(ledger, account), _lines(show(ledger, account)))


def _lines(text: str) -> list[str]:
    return text.rstrip("\n").split("\n")


def _said(text: str, **data: Any) -> Result:
    return Result((), {**data, "said": text}, _lines(text))


def _verify(flags: Flags) -> Result:
    from tracecloak.pipelines.ledger.reading import verify

    text, is_sound = verify(_opened(flags))
    return _said(text, is_sound=is_sound)


def _export(flags: Flags) -> Result:
    from tracecloak.pipelines.ledger.reading import export

    text = export(_opened(flags))
    return Result((), {}, _lines(text) if text else [])


def _backup(flags: Flags) -> Result:
    from tracecloak.pipelines.budget.opening import back_up

    ledger, path = _opened(flags), flags["output"]
    head = back_up(ledger, path)
    data = {"ledger": ledger.place, "backup": path, "entries": head.seq, "hash": head.hash}
    sentence = f"{ledger.place}: {head.seq} entries, the last with hash {head.hash}"
    return Result([("backup", path)], data, below=[sentence])


def _restore(flags: Flags) -> Result:
    from tracecloak.pipelines.budget.opening import restore
    from tracecloak.pipelines.ledger.caps import AWAITS

    named = (flags[k] for k in ("backup", *_SIGNED))
    place, n_entries = restore(_store(flags), flags.get("ledger"), *named)
    data = {"ledger": place, "entries": n_entries}
    return Result([("restored", place)], data, below=[f"{AWAITS.format(place)}."])


def _begin(flags: Flags) -> Result:
    ledger = _opened(flags, new=True)
    n = len(ledger.entries())
    sentence = f"{ledger.place} has {n} entries" if n else f"{ledger.place}: nothing is spent in it"
    return Result((), {"ledger": ledger.place, "entries": n}, [sentence])


def _migrate(flags: Flags) -> Result:
    from tracecloak.pipelines.budget.migration import migrate

    done = migrate(_store(flags), lambda: _opened(flags, is_migrated=False), flags)
    return Result((), {"done": done}, done or ["nothing was to be done"])


def _declare(flags: Flags) -> Result:
    from tracecloak.pipelines.ledger.caps import Account, parse_cap

    ledger = _opened(flags)
    epsilon, delta = (
        parse_cap(name, None if flags[name] == "none" else flags[name], "none")
        for name in ("epsilon", "delta")
    )
    account = Account(
        flags["name"], epsilon, delta, flags["unit"], flags.get("max_cases"), flags.get("note", "")
    )
    ledger.declare_account(account, flags["by"], flags["reason"])
    return _shown(ledger, account.name)


def _bind(flags: Flags) -> Result:
    from tracecloak.pipelines.ledger.reading import dataset_text

    ledger = _opened(flags)
    ledger.bind_dataset(flags["name"], flags["account"], flags["by"], flags["reason"])
    said = dataset_text(ledger.entries(), flags["name"])
    return Result((), {"dataset": flags["name"], "account": flags["account"]}, _lines(said))


def _accept(flags: Flags) -> Result:
    from tracecloak.pipelines.ledger.reading import accepted_text

    ledger = _opened(flags, after_loss=True)
    accepted = ledger.accept(flags["by"], flags["reason"])
    data = {"complaints": list(accepted.complaints), "entries_counted": len(accepted.counted)}
    return Result((), data, _lines(accepted_text(accepted)))


def _list_unfinished(flags: Flags) -> Result:
    from tracecloak.pipelines.budget.unfinished import resume_text

    return _said(resume_text(_store(flags), _opened(flags)))


def _ended(
    flags: Flags, what: str, spent: str, end: Callable[..., Ended], without_key: str = ""
) -> Result:
    """Ends a release by hand, and returns what there is to say of it."""
    named = (flags[name] for name in ("output", "release_id", *_SIGNED))
    ended = end(_store(flags), _opened(flags), *named)
    data = {
        "folder": ended.folder, "key_destroyed": ended.had_key,
        "key_stores_elsewhere": list(ended.elsewhere),
    }  # fmt: skip
    if not ended.was_reserved:
        spent, without_key = "Nothing was reserved for it; the result of its query is deleted.", ""
    sentences = [spent] + ["Its key was in this key store, and is destroyed."] * ended.had_key
    if ended.elsewhere:
        names = ", ".join(name or "without a name" for name in ended.elsewhere)
        sentences.append(
            f"It was made with another key store (in the ledger: {names}), so that key and the "
            "copies of it for workers are out of reach from here. Run this command again with "
            "--key_store of that one, which destroys what is there of them."
        )
    elif not ended.had_key and without_key:
        sentences.append(without_key)
    return Result([(what, ended.folder)], data, below=[" ".join(sentences)])


def _forfeit(flags: Flags) -> Result:
    from tracecloak.pipelines.budget.unfinished import forfeit

    lost = "Its key was not in this key store, which made it: see to backups that may have it."
    return _ended(flags, "given up", "What it reserved stays spent.", forfeit, lost)


def _withdraw(flags: Flags) -> Result:
    from tracecloak.pipelines.budget.unfinished import withdraw

    spent = "What it spent stays spent, and whoever has a copy of it has it still."
    return _ended(flags, "withdrawn", spent, withdraw)


def _list_cases(flags: Flags) -> Result:
    from tracecloak.pipelines.ledger.noted_cases import NotedCases, cases_text

    ledger = _opened(flags)
    return _said(cases_text(ledger.entries(), NotedCases(ledger.url).all()))


def _erase(flags: Flags) -> Result:
    from tracecloak.pipelines.ledger.noted_cases import erase

    which = flags.get("output"), flags.get("release_id"), flags.get("before")
    n = erase(_opened(flags), *which, flags["by"], flags["reason"])
    return Result((), {"releases": n}, [f"erased what was noted of the cases of {n} releases"])


_RELEASE = ("output", "release_id", *_SIGNED)
_STREAM = "name of the release; of a stream NAME@EPOCH, once it is stopped"
ACTIONS: Mapping[str, Action] = {
    "show": Action(
        "show what the accounts may spend and spent, on what, and how many more releases fit",
        _show, _flags("accounts", "account"),
    ),
    "verify": Action(
        "check the chain of entries, and that nothing was forgotten", _verify, _flags()
    ),
    "export": Action("print all entries as JSON lines", _export, _flags()),
    "backup": Action(
        "write all entries into a file, once their chain is checked",
        _backup, _flags("output", output={"help": "the file, which is not there yet"}),
    ),
    "restore": Action(
        "make the ledger of a backup where there is none; it pays for nothing until `accept`",
        _restore, _flags("backup", *_SIGNED),
    ),
    "begin": Action("begin a ledger in which nothing is spent", _begin, _flags()),
    "migrate": Action(
        "take over what an earlier version left in ledger and key store, once",
        _migrate, _flags("book"),
    ),
    "declare": Action(
        "declare what an account may spend, in place of what was declared before",
        _declare, _flags("name", "epsilon", "delta", "unit", "max_cases", "note", *_SIGNED),
    ),
    "bind": Action(
        "bind a data set to one account: releases that name it under another are refused",
        _bind,
        _flags("name", "account", *_SIGNED,
               account={"required": True, "help": "the account that alone pays for its releases"}),
    ),
    "list-unfinished": Action(
        "list the releases that were cut off and wait for a rerun", _list_unfinished, _flags()
    ),
    "forfeit": Action(
        "give up a release that was cut off: it stays spent, and draws nothing any more",
        _forfeit, _flags(*_RELEASE),
    ),
    "withdraw": Action(
        "take a release back: its files go, and what it spent stays spent",
        _withdraw, _flags(*_RELEASE, release_id={"help": _STREAM}),
    ),
    "list-cases": Action(
        "list what is noted of the cases that releases read, and who read the same",
        _list_cases, _flags(),
    ),
    "erase": Action(
        "erase what is noted of cases: all, or that of the releases that the flags name",
        _erase,
        _flags(*_RELEASE, "before",
               output={"required": False, "help": "folder of all releases; by default any"},
               release_id={"required": False, "help": "name of the release; by default any"}),
    ),
    "accept": Action(
        "say what happened to a ledger or key store that was restored from an old backup",
        _accept, _flags(*_SIGNED),
    ),
}  # fmt: skip
