"""`tracecloak ledger`: what is read of the ledger of privacy budgets, and what an officer writes.

One action, one entry of `ACTIONS`, with its flags in `flags.json`. Actions on a whole ledger take a
configuration, of a release or of a stream, and then mean its ledger and its key store.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from tracecloak.pipelines.commands.table import Given
from tracecloak.pipelines.screen import results
from tracecloak.pipelines.screen.results import Result
from tracecloak.schemas.errors import TracecloakError, UsageError

if TYPE_CHECKING:
    from tracecloak.pipelines.keys.key_store import KeyStore
    from tracecloak.pipelines.ledger.officers_ledger import OfficersLedger

Flags = Mapping[str, Any]

_PLACES = ("ledger", "key_store", "key_encryption_key")
_SIGNED = ("by", "reason")


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
    result = ACTIONS[action](flags)
    if action == "export" and given.form == "json":  # its lines are JSON already
        results.show(result, "table")
    else:
        results.show(result, given.form)
    return 0 if result.data.get("is_sound", True) else TracecloakError.exit_code


def _store(flags: Flags) -> KeyStore:
    from tracecloak.pipelines.budget.opening import store_at

    return store_at(flags.get("key_store"), key_encryption_key=flags.get("key_encryption_key"))


def _opened(flags: Flags, **how: bool) -> OfficersLedger:
    from tracecloak.pipelines.budget.opening import officers_ledger
    from tracecloak.pipelines.ledger.caps import load_accounts

    accounts = load_accounts(flags.get("accounts"))
    return officers_ledger(_store(flags), flags.get("ledger"), accounts, **how)


def _show(flags: Flags) -> Result:
    from tracecloak.pipelines.ledger.reading import show

    text, shown = show(_opened(flags), flags.get("account"))
    return _said(text, shown)


def _said(text: str, data: Mapping[str, Any] | None = None) -> Result:
    return Result((), {"said": text} if data is None else data, text.rstrip("\n").split("\n"))


def _verify(flags: Flags) -> Result:
    from tracecloak.pipelines.ledger.reading import verify

    text, is_sound = verify(_opened(flags))
    return _said(text, {"is_sound": is_sound, "said": text})


def _export(flags: Flags) -> Result:
    from tracecloak.pipelines.ledger.reading import export

    return Result((), {}, export(_opened(flags)).splitlines())


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
    from tracecloak.pipelines.ledger.caps import account_of

    account = account_of(flags["name"], flags, "none")
    signed = {name: flags[name] for name in _SIGNED}
    _opened(flags).declare_account(account, **signed, composition=flags.get("composition"))
    return _show({**flags, "account": account.name})


def _bind(flags: Flags) -> Result:
    from tracecloak.pipelines.ledger.reading import dataset_text

    ledger = _opened(flags)
    ledger.bind_dataset(flags["name"], flags["account"], flags["by"], flags["reason"])
    data = {"dataset": flags["name"], "account": flags["account"]}
    return _said(dataset_text(ledger.entries(), flags["name"]), data)


def _accept(flags: Flags) -> Result:
    from tracecloak.pipelines.ledger.reading import text_of

    ledger = _opened(flags, after_loss=True)
    complaints, counted = ledger.accept(flags["by"], flags["reason"])
    data = {"complaints": complaints, "entries_counted": len(counted)}
    return _said(text_of("accepted", complaints=complaints, counted=counted), data)


def _list_unfinished(flags: Flags) -> Result:
    from tracecloak.pipelines.budget.unfinished import resume_text

    return _said(resume_text(_store(flags), _opened(flags)))


def _ended(flags: Flags) -> Result:
    """Ends a release by hand, and returns what there is to say of it."""
    from tracecloak.pipelines.budget.unfinished import forfeit, withdraw
    from tracecloak.pipelines.ledger.reading import text_of

    action = flags["action"]
    end, what = (forfeit, "given up") if action == "forfeit" else (withdraw, "withdrawn")
    named = (flags[name] for name in ("output", "release_id", *_SIGNED))
    ended = end(_store(flags), _opened(flags), *named)
    data = {
        "folder": ended.folder, "key_destroyed": ended.had_key,
        "key_stores_elsewhere": list(ended.elsewhere),
    }  # fmt: skip
    sentences = text_of("ended", action=action, ended=ended).split("\n")
    return Result([(what, ended.folder)], data, below=[" ".join(sentences).rstrip()])


def _list_cases(flags: Flags) -> Result:
    from tracecloak.pipelines.ledger.noted_cases import NotedCases, cases_text

    ledger = _opened(flags)
    return _said(cases_text(ledger.entries(), NotedCases(ledger.url).all()))


def _erase(flags: Flags) -> Result:
    from tracecloak.pipelines.ledger.noted_cases import erase

    which = flags.get("output"), flags.get("release_id"), flags.get("before")
    n = erase(_opened(flags), *which, flags["by"], flags["reason"])
    return Result((), {"releases": n}, [f"erased what was noted of the cases of {n} releases"])


ACTIONS: Mapping[str, Callable[[Flags], Result]] = {
    "show": _show,
    "verify": _verify,
    "export": _export,
    "backup": _backup,
    "restore": _restore,
    "begin": _begin,
    "migrate": _migrate,
    "declare": _declare,
    "bind": _bind,
    "list-unfinished": _list_unfinished,
    "forfeit": _ended,
    "withdraw": _ended,
    "list-cases": _list_cases,
    "erase": _erase,
    "accept": _accept,
}
