"""Where what is released goes, who pays, and where keys lie: keys of every configuration."""

from __future__ import annotations

import pydantic
from pydantic import Field


class PayingConfig(pydantic.BaseModel):
    """The keys that releases and streams have in common, none of which changes a released byte."""

    model_config = pydantic.ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)

    output: str = Field(min_length=1)
    """Folder of all releases, on any Beam file system; this one goes to run_id=<release_id> in
    it."""
    staging_area: str | None = None
    """Folder, on the file system of the output, in which files are built before they are seen;
    only their owner can read them there. By default beside the output."""
    dead_letter: str | None = None
    """Folder for the places of records that cannot be read, and why; by default one beside the
    keys, which only the operator reads."""
    key_store: str | None = None
    """Folder of keys and receipts, or for releases where no disk stays the URL of a PostgreSQL
    database of their own; by default TRACECLOAK_KEY_STORE or a folder in the home folder."""
    worker_keys: str | None = None
    """Folder on a file system that workers elsewhere can read, such as gs://BUCKET/keys, where they
    find the keys in use; DataflowRunner needs it. Whoever can read it can subtract noise,
    unless key_encryption_key is set. By default they find them in the key store."""
    key_encryption_key: str | None = None
    """Where the key of a key management service is that encrypts the keys in the key store and in
    worker_keys: file:PATH, env:NAME or command:WORDS, which prints it. Workers ask there too. By
    default TRACECLOAK_KEY_ENCRYPTION_KEY; without it the keys lie in clear."""
    ledger: str | None = None
    """SQLAlchemy URL of the ledger of privacy budgets, or env:NAME, file:PATH or command:WORDS,
    which lead to it; by default an SQLite file in the key store, which does for runs on this
    machine."""
    new_ledger: bool = False
    """Begin a ledger, in which nothing is spent, where there is none; for the first release."""
    account: str = "default"
    """Account of the ledger that pays for the release, or for the whole horizon of a stream before
    anything is read: one for each population of cases."""
    accounts: str | None = None
    """YAML file with caps of the accounts, which hold beside those that the ledger declares; by
    default only those do."""
    dataset: str | None = None
    """Name of the data set, noted in the ledger, where the privacy officer can bind it to one
    account; by default none, and nothing is checked."""
    runner: str
    """What runs it."""
