"""What the keywords of a transform ask for, what a collection holds, and how it is read."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
from collections.abc import Mapping
from dataclasses import dataclass, fields
from decimal import Decimal
from typing import Any, Literal, get_type_hints

import apache_beam as beam
import numpy as np
import pyarrow as pa
from apache_beam.typehints import typehints
from apache_beam.typehints.native_type_compatibility import convert_to_beam_type
from apache_beam.typehints.row_type import RowTypeConstraint
from apache_beam.utils.timestamp import Timestamp

from tracecloak.anonymizers.registry import method_named
from tracecloak.pipelines.configuration.config import About, Columns, ReleaseConfig, merge_params
from tracecloak.pipelines.configuration.plan import ReleasePlan, read_plan
from tracecloak.pipelines.runners.on_beam import refuse_losses
from tracecloak.schemas.errors import InputSchemaError, UsageError
from tracecloak.schemas.events.columns import ColumnMapping, ResolvedColumns
from tracecloak.schemas.events.events import ORDER, START_TIMESTAMP, TIMESTAMP
from tracecloak.transforms.inputs.python_rows import RowReader

# --- What the keywords of a constructor ask for: the keys of a configuration, checked as it is. ---


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


def plan_of_rows(
    method: str,
    params: Mapping[str, Any] | None,
    keys: Mapping[str, Any],
    allowed: tuple[str, ...],
) -> ReleasePlan:
    """Returns the plan of a release of rows.

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
    return read_plan(None, {"output": "rows", "method": method, **given, "log": [ROWS]})


def runner_of(pipeline: beam.Pipeline) -> str:
    """Returns the name of the runner that a pipeline was made for."""
    name = type(pipeline.runner).__name__
    return "DirectRunner" if name == "SwitchingDirectRunner" else name


# --- What a collection holds, told by its type when a pipeline is built, and how it is read. ------


Kind = Literal["rows", "dicts", "batches"]
_OF_TIMES = (Timestamp, datetime.date)  # of which datetime is one
_OF_NUMBERS = (int, float, Decimal, np.number)
_SCALARS = (str, bytes, *_OF_NUMBERS, bool, np.bool_)
_SHOWN = 20


@dataclass(frozen=True)
class Elements:
    """How the elements of a collection are read; it pickles.

    Attributes:
        kind: What they are: rows with a schema, dicts, or Arrow record batches.
        mapping: What their columns mean.
        carried: Names of the attributes that the method reads, starts of events among them.
        reader: Reads rows and dicts; None: they are batches.
    """

    kind: Kind
    mapping: ColumnMapping
    carried: tuple[str, ...]
    reader: RowReader | None


def elements_of(events: beam.PCollection[Any], plan: ReleasePlan) -> Elements:
    """Returns how the events of a finished log are read.

    Args:
        events: Of a pipeline that is being built.
        plan: What is to be released of them.

    Raises:
        UsageError: The collection is unbounded or windowed, or its type is none that can be read.
        InputSchemaError: Its rows lack a column that is mapped, or have a type that cannot be what
            it is mapped to.
    """
    require_whole(events)
    mapping, carried = plan.mapping, tuple(plan.method.carried(plan.params))
    kind, fields = kind_of(events.element_type)
    if kind == "batches":
        return Elements(kind, mapping, carried, None)
    if fields is None:
        return Elements(kind, mapping, carried, RowReader.for_unnamed_columns(mapping))
    resolved = mapping.resolve(list(fields), xes_names=False)
    require_fields(resolved, fields)
    return Elements(kind, mapping, carried, RowReader(resolved))


def require_whole(events: beam.PCollection[Any]) -> None:
    """Makes sure that a collection is a whole log: a case counts once, in one place.

    Raises:
        UsageError: It is unbounded, or windowed, or its runner loses data.
    """
    if not events.is_bounded:
        raise UsageError(
            "the events are unbounded, and this transform releases a finished log once: use "
            "PublishDirectlyFollows, which publishes a release every period"
        )
    if not events.windowing.is_default():
        raise UsageError(
            "the events are windowed, and a case in several windows would be released again in "
            "each: leave the windows out (beam.WindowInto(GlobalWindows())), or publish a release "
            "every period with PublishDirectlyFollows"
        )
    refuse_losses(events.pipeline.options)


def kind_of(element_type: Any) -> tuple[Kind, dict[str, Any] | None]:
    """Returns what elements of a type are, and the types of their fields if it tells them.

    Raises:
        UsageError: They are nothing that can be read; names the type.
    """
    if element_type is pa.RecordBatch:
        return "batches", None
    dicts = typehints.DictHint.DictConstraint | typehints.MappingTypeConstraint
    classes = getattr(element_type, "__mro__", ())
    if isinstance(element_type, dicts) or dict in classes or Mapping in classes:
        return "dicts", None
    rows = element_type
    if not isinstance(rows, RowTypeConstraint) and isinstance(rows, type):
        has_fields = hasattr(rows, "_fields") or dataclasses.is_dataclass(rows)
        rows = RowTypeConstraint.from_user_type(rows) if has_fields else None
    if isinstance(rows, RowTypeConstraint):
        fields = dict(rows._fields)
        # Of a class whose module postpones annotations, Beam knows them as texts.
        with contextlib.suppress(NameError, TypeError):
            fields |= {n: t for n, t in get_type_hints(rows.user_type).items() if n in fields}
        return "rows", fields
    shown = getattr(element_type, "__name__", None) or repr(element_type)
    raise UsageError(
        f"the events have the type {shown}, and can be rows with a schema, dicts or "
        "pyarrow.RecordBatch: name the type where they are made, such as beam.Map(…)."
        "with_output_types(dict[str, Any]); for rows it is a typing.NamedTuple of their fields"
    )


def require_fields(resolved: ResolvedColumns, fields: Mapping[str, Any]) -> None:
    """Makes sure that rows have the columns that are mapped, of types that can be read.

    Raises:
        InputSchemaError: They have not; names the column.
    """
    timed = (TIMESTAMP, START_TIMESTAMP)
    times = {resolved.names.get(name, "") for name in timed}
    texts = {source for name, source in resolved.names.items() if name not in (*timed, ORDER)}
    for name in resolved.required:
        if name not in fields:
            shown = ", ".join(map(repr, list(fields)[:_SHOWN])) or "none"
            raise InputSchemaError(
                f"the rows have no field {name!r}; their fields are {shown}. Map the columns with "
                "case_id, activity and timestamp, each by the name of a field"
            )
        kind = convert_to_beam_type(fields[name])
        kinds = [one for one in getattr(kind, "union_types", (kind,)) if one is not type(None)]
        known = _SCALARS + (() if name in texts else _OF_TIMES)
        wrong = [
            kind
            for kind in kinds
            if not isinstance(kind, typehints.AnyTypeConstraint)
            and not (isinstance(kind, type) and issubclass(kind, known))
        ]
        if wrong:
            raise InputSchemaError(
                f"the field {name!r} has the type {getattr(wrong[0], '__name__', wrong[0])}, which "
                "cannot be what it is mapped to: convert it, or map another field"
            )
        if name in times and resolved.mapping.timestamp_unit is None:
            if any(isinstance(kind, type) and issubclass(kind, _OF_NUMBERS) for kind in kinds):
                raise InputSchemaError(
                    f"the field {name!r} holds numbers; say their unit since 1970 with "
                    "timestamp_unit: s, ms, us or ns"
                )
