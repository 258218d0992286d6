"""A release as it was resolved from its configuration, once, and the files that it reads.

All that follows from the keys of a configuration follows here: what makes a release, of which
events, in which window, and what it promises and pays. Its steps take the plan and look nothing up.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, partial
from typing import Any

from tracecloak.anonymizers.accounting.composition import Spend, total
from tracecloak.anonymizers.contract.bounding import ContributionBounds
from tracecloak.anonymizers.contract.case_digests import config_digest, noise_digest
from tracecloak.anonymizers.contract.method import Anonymizer
from tracecloak.anonymizers.registry import method_named
from tracecloak.anonymizers.rigorous.parts_method import windows_add_up
from tracecloak.pipelines.configuration import shared_keys
from tracecloak.pipelines.configuration.config import (
    FRAME,
    IN_DIGEST,
    ReleaseConfig,
    SourceConfig,
    checked_config,
    without_filters,
)
from tracecloak.pipelines.configuration.flags import check_new_names
from tracecloak.pipelines.runners.flags import FN_API
from tracecloak.schemas.errors import InputSchemaError, UsageError
from tracecloak.schemas.events.columns import ColumnMapping
from tracecloak.schemas.published.manifest import Guarantee
from tracecloak.schemas.windows import Schedule, Window
from tracecloak.transforms.files import absolute, is_on_this_machine
from tracecloak.transforms.formats.registry import FORMATS, unpacked
from tracecloak.transforms.inputs.source_files import SourceFile, match_files
from tracecloak.transforms.sources import EventSource

CHOSEN = (
    "Names of activities were joined, or equal events of a case counted once, as somebody chose: a "
    "setting that was chosen after looking at the data is not covered by epsilon."
)
"""What a statement says of a log that was put in order before it counted."""


@dataclass(frozen=True)
class ReleasePlan:
    """Everything that a release depends on, resolved; it pickles.

    Attributes:
        keys: The keys of the configuration, for those that are only passed on: places, who pays,
            what runs it, and what the release says of itself.
        method: What makes the release.
        params: Its checked parameters.
        bounds: The public caps that every trace is brought under.
        spends: What the account is charged for it, part by part; empty: no finite epsilon.
        epsilon: Of all parts together; None: it is not finite.
        delta: Likewise.
        mapping: What the columns of the log mean, with those that the method carries.
        schedule: The windows in which the log is released; None: it is one release.
        window: The one that this release is of; None: it is of none, or of which is open yet.
        book_key: Where the key of the counted units is, as the configuration or the
            environment names it; None: in the key store.
        windows_add_up: Whether several windows cost an individual their sum, and not what the
            dearest costs.
    """

    keys: ReleaseConfig
    method: Anonymizer
    params: Any
    bounds: ContributionBounds
    spends: tuple[Spend, ...]
    epsilon: Fraction | None
    delta: Fraction | None
    mapping: ColumnMapping
    schedule: Schedule | None = None
    window: Window | None = None
    book_key: str | None = None
    windows_add_up: bool = False

    @property
    def whole_cost(self) -> tuple[Fraction, Fraction] | None:
        """The epsilon and delta of all windows together; None: it is of none, or has none."""
        if self.schedule is None or self.epsilon is None or self.delta is None:
            return None
        n = len(self.schedule.windows()) if self.windows_add_up else 1
        return n * self.epsilon, n * self.delta

    def with_keys(self, **values: Any) -> ReleasePlan:
        """Returns it with other keys, from which nothing else follows."""
        return replace(self, keys=self.keys.model_copy(update=values))

    def with_log(self, log: Sequence[str]) -> ReleasePlan:
        """Returns it with other inputs."""
        plan = resolve(self.keys.model_copy(update={"log": tuple(log)}))
        return replace(plan, window=self.window)

    def of_window(self, window: Window) -> ReleasePlan:
        """Returns the plan of the release of one window, which is named after it."""
        name = f"{self.keys.release_id}-{window.label}"
        return replace(self.with_keys(window=window.label, release_id=name), window=window)

    def of_named_window(self) -> ReleasePlan:
        """Returns it with the one window that its keys name, if there is a schedule.

        Raises:
            UsageError: The schedule has no such window.
        """
        if self.schedule is None or self.keys.window is None:
            return self
        return replace(self, window=self.schedule.named(self.keys.window))

    def with_flags_of_beam(self, beam_arguments: Sequence[str]) -> ReleasePlan:
        """Returns it with a runner of Beam if there are flags of Beam and no runner is named."""
        is_named = not beam_arguments or "runner" in self.keys.model_fields_set
        return self if is_named else self.with_keys(runner=FN_API)

    @cached_property
    def guarantee(self) -> Guarantee:
        """What the method promises, and what of that the configuration takes away."""
        guarantee, keys = self.method.guarantee(self.params), self.keys
        if keys.query is not None:
            from tracecloak.transforms.inputs.databases import query_result_guarantee

            guarantee = query_result_guarantee(guarantee)
        if guarantee.kind != "rigorous":
            return guarantee
        conditions = []
        if keys.max_error_ratio is not None:
            conditions.append(
                f"The run ends if more than {keys.max_error_ratio:g} of the records cannot be "
                "read: whether there is a release tells whether there are so many."
            )
        if keys.rename or keys.drop_duplicates:
            conditions.append(CHOSEN)
        return replace(guarantee, not_covered=(*guarantee.not_covered, *conditions))

    @property
    def method_name(self) -> str:
        """The name of the method."""
        return self.method.name

    @property
    def max_error_ratio(self) -> float:
        """Largest share of malformed records with which the run goes on."""
        if self.keys.max_error_ratio is not None:
            return self.keys.max_error_ratio
        return 1.0 if self.guarantee.kind == "rigorous" else 0.01

    @cached_property
    def digest(self) -> str:
        """Digest of all that determines the released bytes beside the input, the key and versions.

        A key that is left out and one that is given with its default have the same digest, so a key
        that a later version adds changes no digest.
        """
        return self.digest_with(self.params.given())

    @cached_property
    def published_digest(self) -> str:
        """The digest without filters and renames, see `without_filters`."""
        return replace(self, keys=without_filters(self.keys)).digest

    def digest_with(self, given: Mapping[str, Any]) -> str:
        """Returns `digest` with other parameters of the method.

        Args:
            given: JSON values of those that are not as by default.
        """
        fields = set(IN_DIGEST) - {"params", "query", "schedule", "window"}
        whole = self.keys.model_dump(mode="json", include=fields, exclude_defaults=True)
        whole["params"] = dict(given)
        if self.guarantee.kind != "rigorous":
            whole.pop("max_error_ratio", None)  # then it is no part of what is promised
        if self.keys.query is not None:
            whole["population"] = "query result"  # and not its text, which could be tried out
        if self.schedule is not None and self.window is not None:
            whole |= {"schedule": self.schedule.digest, "window": self.window.label}
        return config_digest(whole)

    @property
    def noise_digest(self) -> str:
        """Digest of that and of the version of the method: what the noise is bound to."""
        return noise_digest(self.digest, self.method.version, self.inner_versions)

    @cached_property
    def inner_versions(self) -> dict[str, int]:
        """Versions of what the parameters name, and of how files are read, where that changed.

        The same bytes can be other events since then, and must not meet the same noise. A frame is
        known by its events, so it needs none.
        """
        inner, keys = dict(self.method.inner_versions(self.params)), self.keys
        paths = [unpacked(path)[0] for path in keys.log]
        is_json = keys.input_format == "jsonl" or any(
            path.endswith(FORMATS["jsonl"].endings) for path in paths
        )
        is_local = keys.columns.time_zone != "UTC" or keys.columns.timestamp_format is not None
        if keys.log[:1] != (FRAME,) and (is_json or is_local or keys.where):
            inner["reading"] = 2
        return inner

    def require_names(self) -> None:
        """Makes sure that the release has a name if it needs one, and a window if a schedule.

        Raises:
            UsageError: It is rigorous, or of a window, and has no name; or one of schedule and
                window is given without the other.
        """
        window, is_named = self.keys.window, self.keys.release_id is not None
        if self.schedule is not None and window is None:
            raise UsageError("window is missing: give one, such as 2026-11 or due")
        if self.schedule is None and window is not None:
            raise UsageError(f"window {window!r} needs the key schedule of the configuration file")
        if not is_named and self.schedule is not None:
            raise UsageError("release_id is missing: the releases of a schedule are named by it")
        if not is_named and self.guarantee.kind == "rigorous":
            raise UsageError(
                "release_id is missing: the default, a digest, would tell whether the log changed"
            )


# --- From a configuration to a plan: of a file with flags, or of keywords. ------------------------


def load(path: str | None, flags: Mapping[str, object]) -> ReleaseConfig:
    """Returns the configuration of a YAML file with flags in place of its keys; see `read_plan`."""
    return read_plan(path, flags).keys


def read_plan(path: str | None, flags: Mapping[str, object]) -> ReleasePlan:
    """Returns the plan of a YAML file with flags in place of its keys.

    Args:
        path: The file, or None.
        flags: Given flags by name: keys of the configuration, of `columns`, or of the method.

    Raises:
        UsageError: The file is no YAML mapping, or a key is unknown, missing or wrong.
    """
    config = checked_config(path, flags)
    if config.query is not None or config.database is not None or not config.log:
        shared_keys.check_query(config)
    return resolve(config)


def resolve(config: ReleaseConfig) -> ReleasePlan:
    """Returns the plan of a configuration.

    Raises:
        UsageError: A parameter of the method is unknown or out of range, or a key is wrong or does
            not go with another.
    """
    method, params = method_named(config.method), config.method_params
    bounds, spends = method.bounds(params), tuple(method.spends(params))
    epsilon, delta = total(spends) if spends else (None, None)
    schedule = None
    if config.rename:
        check_new_names(config.rename, bounds)
    if config.schedule is not None:
        schedule = config.schedule.made(config.dataset)
        if bounds.closed:
            shared_keys.check_ends_are_read(config.schedule, bounds.vocabulary or ())
    plan = ReleasePlan(
        keys=config,
        method=method,
        params=params,
        bounds=bounds,
        spends=spends,
        epsilon=epsilon,
        delta=delta,
        mapping=replace(
            config.mapping,
            needs_individual=bounds.max_cases_per_individual is not None,
            attributes=tuple((a.name, a.column) for a in method.attributes(params)),
            activities=bounds.vocabulary if bounds.closed else None,
        ),
        schedule=schedule,
        book_key=config.book_key or os.environ.get("TRACECLOAK_BOOK_KEY") or None,
        windows_add_up=schedule is not None and windows_add_up(method, params),
    )
    if schedule is not None:
        shared_keys.check_composes(method.name, plan.guarantee)
    return plan


# --- The files that a plan or a configuration reads, looked at before anything runs. --------------


# How many inputs have their headers checked before anything runs, unless all must be; the readers
# check every header.
_CHECKED_FILES = 20


def files_here(plan: ReleasePlan) -> list[SourceFile] | None:
    """Returns the input files of one release if all are on this machine; None: `source_of` asks.

    Raises:
        NoSuchFile: An input is not there.
    """
    keys = plan.keys
    is_listed_later = keys.tables or keys.query is not None or keys.schedule is not None
    if is_listed_later or not all(map(is_on_this_machine, keys.log)):
        return None
    return match_files(keys.log, may_be_none=True)


def source_of(
    config: SourceConfig | ReleasePlan,
    listed: Sequence[SourceFile] | None = None,
    left_out: Collection[str] = (),
    is_checked: bool = True,
) -> EventSource:
    """Returns the input files and how to read them; reads no values.

    Files whose partitions cannot pass the filters, or hold no event that the window needs, are left
    out and never opened.

    A release may have no file at all (`match_files`), as "nothing happened" is released like any
    other log. Where a true epsilon is promised, no record ends the reading, and the head of every
    file is checked, as nothing may be refused after that. Nor does a record end the reading of what
    only looks at a log.

    Args:
        config: What says where the files are.
        listed: The files that it names, as `match_files` returned them; None: it is asked.
        left_out: Absolute paths of files that are not opened.
        is_checked: Whether heads of files are checked; else no file is opened.

    Raises:
        UsageError: An input's format is not known, or its file system.
        NoSuchFile: An input is not there.
        LacksColumn: An input does not have the mapped columns.
        InputSchemaError: These are partitions of some files and not of others, or no file is left
            of what has to have one, or one cannot be read.
    """
    if isinstance(config, ReleaseConfig):
        config = resolve(config).of_named_window()
    plan = config if isinstance(config, ReleasePlan) else None
    keys: SourceConfig = config.keys if isinstance(config, ReleasePlan) else config
    tables, mapping, may_be_none = keys.tables, config.mapping, plan is not None
    is_rigorous = plan is not None and plan.guarantee.kind == "rigorous"
    is_query = plan is not None and plan.keys.query is not None
    if is_query:
        # One file, whose path is no pattern, and whose folders say nothing of its records.
        files = [SourceFile(0, path, os.path.getsize(path)) for path in keys.log]
    elif listed is not None:
        files = list(listed)
    elif not tables:
        files = match_files(keys.log, may_be_none)
    else:
        from tracecloak.transforms.lakes.tables import files_and_tables

        files = files_and_tables(keys.log, tables, keys.source_format, may_be_none)
    if left_out:
        files = [file for file in files if absolute(file.path) not in left_out]
    window = None if plan is None else plan.window
    span_us = None if window is None else (window.reads_from_us, window.reads_until_us)
    goes_on = is_rigorous or not may_be_none
    every_file = EventSource(
        tuple(files),
        replace(keys.source_format, goes_on=goes_on, order=mapping.order_alone),
        mapping,
        span_us,
        drops_duplicates=keys.drop_duplicates,
        is_unordered=bool(tables) or (is_query and keys.columns.order != "rows"),
    )
    every_file.check_partitions()
    can_hold: Callable[[SourceFile], bool] | None = None  # an event of the window, by its partition
    schedule = None if plan is None else plan.keys.schedule
    if span_us is not None and schedule is not None and schedule.partition is not None:
        from tracecloak.transforms.inputs import source_files

        can_hold = partial(
            source_files.can_hold,
            column=schedule.partition,
            zone=schedule.time_zone,
            span_us=span_us,
            spread_us=schedule.partition_spread,
        )
    source = every_file.narrowed(can_hold)
    if files and not source.files and not may_be_none:
        raise InputSchemaError(
            f"no partition of {len(files):,} input files passes the filters in where; correct them"
        )
    if is_checked:
        checked = source.files if is_rigorous else source.files[:_CHECKED_FILES]
        source.check(checked, every_file.files)
    return source
