"""What the keywords of a constructor ask for: the keys of a configuration, checked as it is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from tracecloak.anonymizers.registry import method_named
from tracecloak.pipelines.configuration.config import About, Columns, ReleaseConfig, load
from tracecloak.pipelines.configuration.python_words import merge_params
from tracecloak.schemas.errors import UsageError
from tracecloak.schemas.events.columns import ColumnMapping

ROWS = "the rows of a pipeline"
"""Stands in a configuration for the log, where it is no file."""

_OF_COLUMNS = (*Columns.model_fields, "where")
PAYING = (
    *("ledger", "new_ledger", "account", "accounts", "dataset", "cases_kept_days"),
    *("key_store", "key_encryption_key", "worker_keys", "deployment_key", "staging_area"),
)
"""The keys that say who pays, and where the key of a release lies."""
_OF_RELEASE = (
    *_OF_COLUMNS,
    *("rename", "drop_duplicates", "max_error_ratio", "expected_cases", "expected_variants"),
    *("even_if_unusable", "release_id", "shards"),
)
OF_ROWS = (*_OF_RELEASE, *PAYING)
"""The keys of a release whose rows go on in the pipeline."""
OF_FILES = (*OF_ROWS, "output", "formats", "parts", "sign", *About.model_fields)
"""Those of a release that is written."""


def columns_of(columns: ColumnMapping | Mapping[str, Any] | None) -> dict[str, Any]:
    """Returns the keys that a mapping of columns stands for.

    Raises:
        UsageError: It says more than `columns` of a configuration can.
    """
    if columns is None:
        return {}
    if not isinstance(columns, ColumnMapping):
        return dict(columns)
    values = {f.name: getattr(columns, f.name) for f in fields(columns) if f.compare}
    given = {f: v for f, v in values.items() if v != getattr(ColumnMapping(), f)}
    if unknown := sorted(given.keys() - Columns.model_fields.keys()):
        raise UsageError(
            f"columns has {unknown[0]}, which a release knows from its method or its filters: "
            "leave it out, and give filters with where"
        )
    return given


def config_of(
    method: str,
    params: Mapping[str, Any] | None,
    keys: Mapping[str, Any],
    allowed: tuple[str, ...],
) -> ReleaseConfig:
    """Returns the configuration of a release of rows.

    Args:
        method: Name of a method.
        params: Parameters of the method; they may be among the keys as well.
        keys: Keys of a configuration, of `columns`, of `about` and of the method.
        allowed: The keys that are taken, beside those of the method.

    Raises:
        UsageError: A key is unknown, missing or wrong, or is one of a release of files.
    """
    fields = method_named(method).Params.model_fields
    given = merge_params(params, keys)
    if unknown := sorted({*(params or {})} - fields.keys()):
        raise UsageError(f"{unknown[0]}: unknown key; {method} has {', '.join(fields)}")
    for name in given:
        if name not in fields and name not in allowed and name in ReleaseConfig.model_fields:
            raise UsageError(
                f"{name} is a key of a release that a command makes, and has no meaning here: "
                "leave it out"
            )
    if "release_id" not in given:
        raise UsageError(
            "release_id is missing: rows have no name of their own; give the release one, such as "
            "release_id='claims-2026-11'"
        )
    return load(None, {"output": "rows", "method": method, **given, "log": [ROWS]})
