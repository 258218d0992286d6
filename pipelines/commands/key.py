"""`tracecloak key`: fresh keys, and another key that encrypts those of a key store.

One action, one entry of `ACTIONS`, with its flags in `flags.json`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tracecloak.pipelines.commands.table import Given
from tracecloak.pipelines.screen.results import Result, show

Flags = Mapping[str, Any]


def run(given: Given) -> int:
    """Does what is asked for."""
    show(ACTIONS[given.flags["action"]](given.flags), given.form)
    return 0


def _make(flags: Flags) -> Result:
    from tracecloak.pipelines.keys.key_store import new_key_file

    path = Path(flags["output"])
    new_key_file(path)
    row = ("key", f"{path} (whoever has it can subtract the noise of its release)")
    return Result([row], {"key": str(path)})


def _make_pair(flags: Flags) -> Result:
    from tracecloak.transforms.keys.signing import new_pair

    private = Path(flags["output"])
    public = Path(flags.get("public") or f"{private}.pub")
    fingerprint = new_pair(private, public).fingerprint
    rows = [
        ("private key", f"{private} (signs releases by --sign; whoever has it can sign as you)"),
        ("public key", f"{public} (for recipients: tracecloak verify RELEASE --key {public})"),
        ("fingerprint", f"{fingerprint} (give it to recipients by another way than the releases)"),
    ]
    data = {"private_key": str(private), "public_key": str(public), "fingerprint": fingerprint}
    return Result(rows, data)


def _rewrap(flags: Flags) -> Result:
    from tracecloak.pipelines.budget.opening import store_at
    from tracecloak.transforms.keys.sources import check_reference

    check_reference(flags["to"], "to")
    store = store_at(flags.get("key_store"), key_encryption_key=flags["to"])
    n_wrapped = store.rewrap(flags["from"])
    sentence = (
        f"{n_wrapped} encrypted anew; every key of this key store is under the key of --to now, "
        "which commands find by key_encryption_key or TRACECLOAK_KEY_ENCRYPTION_KEY. Keep the old "
        "key until jobs that run elsewhere have ended; copies of the folder that were made before "
        "stay under it"
    )
    return Result((), {"encrypted_anew": n_wrapped}, [sentence])


ACTIONS: Mapping[str, Callable[[Flags], Result]] = {
    "make": _make,
    "make-pair": _make_pair,
    "rewrap": _rewrap,
}
