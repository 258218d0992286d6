"""Where keys are: the key store with its rights, and keys that a configuration names."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator

from tracecloak.anonymizers.registry import method_named
from tracecloak.examination.doctor.setting import Said, Setting
from tracecloak.pipelines.budget.opening import check_worker_keys
from tracecloak.pipelines.configuration.config import ReleaseConfig
from tracecloak.pipelines.keys.receipts import KeyStoreError, Receipt
from tracecloak.transforms.files import is_on_this_machine, require_file_system, require_writable
from tracecloak.transforms.keys.reference import KeyReference

_FOLDERS = ("releases", "ledgers", "units", "book", "operator")
_OTHERS = stat.S_IRWXG | stat.S_IRWXO


def look_at_key_store(setting: Setting) -> Iterator[Said]:
    """Looks whether keys can be read and written, and by whom else."""
    store = setting.store
    if not store.path.exists():
        require_writable("key_store", str(store.path))
        yield "ok", "there is none yet, and the first run makes it"
        return
    for folder in (store.path, *map(store.path.joinpath, _FOLDERS)):
        if folder.exists() and not os.access(folder, os.R_OK | os.W_OK | os.X_OK):
            raise KeyStoreError(
                f"key store {store.path} cannot be used: this user may not read and write {folder}"
                ", or its disk can only be read; mend its rights or its disk, or give another "
                "key_store for another release"
            )
    in_clear = store.check_secrets()
    status = store.path.stat()
    if status.st_uid != os.geteuid() and status.st_mode & stat.S_IWOTH:
        yield (
            "warning",
            "anybody can replace what is in the key store, which belongs to somebody else; let its "
            "owner run chmod o-rwx on it",
        )
    elif status.st_uid == os.geteuid() and status.st_mode & _OTHERS:
        yield (
            "warning",
            "others can look into the key store; run chmod go-rwx on it, or the next run does",
        )
    if in_clear:
        yield (
            "warning",
            "keys lie in clear and shall be wrapped by key_encryption_key, which the next run does",
        )
    if store.has_ledger_file or any(store.names("ledgers/*")) or any(store.names("releases/*")):
        yield "ok", "its keys can be read, and it can be written"
    else:
        yield "ok", "it can be written, and no release was begun with it yet"


def look_at_named_keys(setting: Setting) -> Iterator[Said]:
    """Asks for the keys that the configuration or the environment names, and forgets them."""
    config = setting.config
    if config.worker_keys is not None:
        require_file_system("worker_keys", config.worker_keys)
        if is_on_this_machine(config.worker_keys):
            require_writable("worker_keys", config.worker_keys)
    check_worker_keys(config)
    release = setting.release
    if release is None:
        return
    if release.signer is not None:
        release.signer.key()
        yield "ok", "the key of sign is there"
    named = {
        "deployment_key": (release.deployment_key, release.cases_kept_days > 0),
        "book_key": (release.book_key, release.schedule is not None),
    }
    for name, (text, is_used) in named.items():
        text = text or os.environ.get(f"TRACECLOAK_{name.upper()}")
        if text is not None and is_used:
            KeyReference(text).resolve()
            yield "ok", f"{name} is there"
    if release.schedule is not None:
        from tracecloak.pipelines.release.window import check_book_key

        check_book_key(release)


def look_at_release_id(setting: Setting) -> Iterator[Said]:
    """Looks what a run does with the next release: begins it, finishes it, or refuses."""
    release, ledger = setting.release, setting.ledger
    if ledger is None or release is None or release.release_id is None:
        return
    from tracecloak.pipelines.budget.books import Books
    from tracecloak.pipelines.budget.standing import TABLE

    folder = setting.folder_of(release.release_id)
    books = Books(setting.store, ledger, folder)
    standing = books.look()
    if (refusal := books.refusal(standing)) is not None:
        raise refusal
    if standing.receipt is not None and standing.state in ("drawn", "visible", "released"):
        _check_asked(release, standing.receipt)
    row = next(row for row in TABLE if row.state == standing.state)
    yield "ok", f"{release.release_id}: what a run would do with it. {row.next_run}"


def _check_asked(release: ReleaseConfig, receipt: Receipt) -> None:
    """Makes sure that the configuration is that of a release that was begun; of its input nothing.

    An earlier version of a method may have been given other parameters for the same: that is told
    by the run alone.
    """
    method, then = method_named(release.method), receipt.origin
    now = method.version, dict(method.inner_versions(release.method_params))
    if now == (then.method_version, then.inner_versions):
        receipt.check_same(receipt.input_fingerprint, release.digest)
