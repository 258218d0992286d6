"""What a release would read, do, spend and write; needs no Beam.

Of values it reads the first records alone, to say whether the configuration fits them; and the
whole of a small log for a method that promises no epsilon and can foretell something of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tracecloak.anonymizers.accounting.composition import joint_sentence
from tracecloak.anonymizers.contract.in_memory import group_into_traces
from tracecloak.anonymizers.contract.method import Params
from tracecloak.anonymizers.registry import method_named
from tracecloak.pipelines.configuration.config import ReleaseConfig
from tracecloak.pipelines.configuration.flag_texts import shown
from tracecloak.pipelines.configuration.source import source_of
from tracecloak.pipelines.planning.findings import FirstLook
from tracecloak.pipelines.planning.first_hints import hints
from tracecloak.pipelines.planning.plan_of_windows import (
    composition_lines,
    window_lines,
)
from tracecloak.pipelines.planning.usable import unusable_among, unusable_sentence
from tracecloak.pipelines.planning.verdict import Verdict, verdicts
from tracecloak.pipelines.planning.worth import SIZES
from tracecloak.schemas.statistics.variants import VariantHistogram
from tracecloak.schemas.texts.formulas import FORMULA_BEGINNINGS, formulas
from tracecloak.transforms.inputs.source_files import SourceFile
from tracecloak.transforms.pages.text_templates import from_template
from tracecloak.transforms.publish.names import DFG_NAME, PARTS, STATEMENT_NAME, log_name, part_name
from tracecloak.transforms.publish.promise import caution
from tracecloak.transforms.sources import EventSource

# Columns that often tell when events began; looked for by their names alone.
_UNREAD_ENDS = frozenset({"lifecycle:transition", "lifecycle", "start_timestamp"})
# Files that are listed one by one, and how many of a folder are where there are more.
_LISTED_FILES = 20
_FIRST_FILES = 3
# Up to so many bytes a plan reads the whole log, if the method can foretell something of it.
_FORETOLD_BYTES = 64_000_000
# Names that begin as formulas do, as far as they are listed.
_LISTED_FORMULAS = 20


@dataclass(frozen=True, repr=False)
class Plan:
    """What a release would do.

    Attributes:
        lines: All of it for a reader, the verdict at the end.
        verdicts: Whether it would be worth it, for each number of cases; none where no noise is
            drawn that could be foretold.
        is_refused: Whether `release` refuses it, as nobody could use it by public numbers.
    """

    lines: tuple[str, ...]
    verdicts: tuple[Verdict, ...]
    is_refused: bool

    def __repr__(self) -> str:
        """Returns the lines, as a screen or a notebook shows them."""
        return "\n".join(self.lines)


def plan_lines(config: ReleaseConfig) -> Iterator[str]:
    """Yields the plan, a line at a time; see `plan_of`."""
    yield from plan_of(config).lines


def plan_of(config: ReleaseConfig, source: EventSource | None = None) -> Plan:
    """Returns the plan.

    Args:
        config: What would be released, for whose expected cases it says what that would be worth;
            where none are declared, for some numbers of cases.
        source: What it would be released of; None: the files that it names.

    Raises:
        UsageError: An input's format is not known.
        InputSchemaError: An input is not there, or does not have the mapped columns, or its first
            records cannot be read.
    """
    source = source_of(config) if source is None else source
    look = FirstLook.at(config, source)
    reading = list(_read(config, source, look))
    method, params = method_named(config.method), config.method_params
    judged: tuple[Verdict, ...] = ()
    against = None
    if config.guarantee.kind == "rigorous":
        sizes = SIZES if config.expected_cases is None else (config.expected_cases,)
        made_up = tuple(verdicts(method, params, sizes))
        against = unusable_among(config, made_up)  # before the log is looked at: it decides nothing
        judged = tuple(one.in_spite_of(look.obstacle) for one in made_up)
    first = [] if against is None else list(_is_unusable(config, against))
    lines = [*first, *reading, *_of_release(config, source, judged), "", "Verdict"]
    lines += [f"  {verdict.sentence}" for verdict in judged]
    if judged and not look.obstacle and not judged[0].worth.errors:
        lines.append(
            "  This was tried on logs that are made up of the names: a process that is more "
            "regular than theirs comes out better, one that is less so worse."
        )
    elif not judged:
        if look.obstacle:
            lines.append(f"  No: {look.obstacle}.")
        lines.append(
            "  Not judged: what comes out depends on your log, at which a plan does not look. "
            "Make the release, and compare it with the log by `tracecloak evaluate`."
        )
    return Plan(tuple(lines), judged, against is not None and not config.even_if_unusable)


def _is_unusable(config: ReleaseConfig, against: Verdict) -> Iterator[str]:
    yield unusable_sentence(against)
    if config.even_if_unusable:
        yield "`tracecloak release` makes it all the same, as --even_if_unusable says."
    else:
        yield "`tracecloak release` makes and pays nothing of it, unless --even_if_unusable is set."
    yield ""


def _read(config: ReleaseConfig, source: EventSource, look: FirstLook) -> Iterator[str]:
    yield "Reads"
    if config.query is not None:
        yield "  the result of a query, which a release asks for once; a plan asks for nothing,"
        yield "  so neither its columns nor its records are looked at here"
        if config.schedule is not None:
            yield "  it is asked for again for every window, and the whole result is read"
    elif not source.files:
        yield f"  {', '.join(config.log)}: no file, so a log without cases"
    yield from _files(source)
    yield from (f"  {line}" for line in look.lines())
    yield from (f"  {line}" for line in hints(look))
    if look.obstacle:
        comes = "BE PAID FOR AND HOLD NOISE ALONE"
        if config.guarantee.kind != "rigorous":
            comes = "BE WORTH NOTHING"
        yield f"  IF ALL RECORDS ARE LIKE THESE, A RELEASE WOULD {comes}: {look.obstacle}"
    if look.lost_steps:
        yield f"  watch out: {look.lost_steps}"
    for where in config.where:
        yield f"  only records whose {where.column} {where.sentence_part}"
    if config.largest_error_ratio < 1:
        yield f"  stops if more than {config.largest_error_ratio:g} of the records are malformed"
    else:
        yield "  leaves malformed records out, however many they are, and says so"
    yield ""


def _files(source: EventSource) -> Iterator[str]:
    """Yields the files with their columns; of very many the first of each folder, and how many."""
    by_folder: dict[str, list[SourceFile]] = {}
    for file in source.files:
        by_folder.setdefault(file.folder, []).append(file)
    are_many = len(source.files) > _LISTED_FILES
    listed = dict(list(by_folder.items())[:_LISTED_FILES])
    for folder, files in listed.items():
        shown = files[:_FIRST_FILES] if are_many else files
        for file in shown:
            columns = source.columns_of(file)
            shown_columns = (
                "its records say which attributes it has" if columns is None else ", ".join(columns)
            )
            names = source.names_of(file, columns)
            yield f"  {source.title_of(file)}: {shown_columns}"
            yield "    " + ", ".join(f"{canonical} ← {name}" for canonical, name in names.items())
            unread = _UNREAD_ENDS.intersection(columns or ()).difference(names.values())
            if unread and not source.mapping.has_starts and not source.mapping.filters:
                yield (
                    f"    {', '.join(sorted(unread))} is not read: if it tells starts of events "
                    "from completions, each event may count twice; see --lifecycle and "
                    "--start_timestamp"
                )
        left = files[len(shown) :]
        if left:
            n_bytes = sum(file.n_bytes for file in left)
            yield f"  {folder or '.'}: {len(left):,} more files ({n_bytes:,} bytes)"
    n_left = len(by_folder) - len(listed)
    if n_left:
        yield f"  {n_left:,} more folders"
    if are_many or source.n_passed_over:
        yield (
            f"  in all {len(source.files):,} files; {source.n_passed_over:,} others are passed "
            "over, as the names of their folders say that they hold nothing that is asked for"
        )


def _of_release(config: ReleaseConfig, source: EventSource, judged: Sequence[Verdict]) -> list[str]:
    """Returns what a release does, promises, is worth, spends and writes."""
    method, params = method_named(config.method), config.method_params
    guarantee = config.guarantee
    costs = list(method.costs(params))
    windows: list[str] = []
    composition: list[str] = []
    if config.schedule is not None:
        schedule = config.schedule.made(config.dataset)
        windows = window_lines(config.schedule, schedule, guarantee.kind != "syntactic")
        composition = composition_lines(
            schedule,
            method.spends(params),
            params.resolved().get("max_cases_per_individual"),
            shares_by_case=not config.windows_add_up,
        )
    unnamed = (
        "<release_id, which this method needs>"
        if guarantee.kind == "rigorous"
        else "<digest of input and configuration>"
    )
    of_window = "" if config.schedule is None else f"-{config.window or '<window>'}"
    return from_template(
        __package__,
        "plan.txt.j2",
        config=config,
        method=method,
        parameters=[
            line for name, value in params.resolved().items() for line in shown(name, value, "  ")
        ],
        explained=[*method.explain(params), *method.time_caveats(params)],
        costs=[*costs, *_foretold(config, source)] if costs else [],
        guarantee=guarantee,
        caution=caution(guarantee),
        worth=_is_worth(judged),
        windows=windows,
        spends=method.spends(params),
        joint_sentence=joint_sentence,
        composition=composition,
        release=f"run_id={config.release_id or unnamed}{of_window}",
        log_files=_log_files(config) if method.log != "none" else (),
        written=method.writes(params),
        statement=STATEMENT_NAME,
    )


def _is_worth(judged: Sequence[Verdict]) -> Iterator[str]:
    if judged and judged[0].worth.errors:
        from tracecloak.pipelines.planning.figure_lines import figure_lines

        yield from figure_lines([verdict.worth for verdict in judged])
    elif judged:
        yield "Is worth (released from logs that are made up of the names; yours is not looked at)"
        for verdict in judged:
            yield f"  {verdict.worth.sentence}"
        yield ""


def _log_files(config: ReleaseConfig) -> Iterator[str]:
    """Yields the files of a released log, and what is to be known of one."""
    if PARTS in config.formats:
        yield f"{part_name(0)} to {part_name(config.parts - 1)}"
    for kind in config.formats:
        if kind != PARTS:
            yield log_name(kind)
            if kind == "csv":
                yield from _formulas(config.method_params)
    yield DFG_NAME


def _formulas(params: Params) -> Iterator[str]:
    """Yields what a spreadsheet makes of some names in CSV."""
    yield (
        f"  A spreadsheet computes what begins with {FORMULA_BEGINNINGS}: names stand there as "
        "they are, so let it import every column as text."
    )
    alike = formulas(getattr(params, "vocabulary", None) or ())
    if alike:
        listed = ", ".join(repr(name) for name in alike[:_LISTED_FORMULAS])
        more = len(alike) - _LISTED_FORMULAS
        yield f"  Of the vocabulary so begin {listed}{f' and {more:,} more' if more > 0 else ''}."


def _foretold(config: ReleaseConfig, source: EventSource) -> Iterator[str]:
    """Yields what a method without an epsilon can say of the log itself, which is read for it."""
    method = method_named(config.method)
    if config.query is not None or config.schedule is not None:
        return
    if not method.foretells(config.method_params):
        return
    n_bytes = sum(file.n_bytes for file in source.files)
    if n_bytes > _FORETOLD_BYTES:
        yield (
            f"The input has {n_bytes:,} bytes, so the number of cases is not foretold here: a plan "
            f"reads up to {_FORETOLD_BYTES:,} for it. A release says it before noise is drawn."
        )
        return
    cases = group_into_traces(source.events(), drops_duplicates=source.drops_duplicates)
    logs = [VariantHistogram.from_traces(traces) for traces in cases]
    variants = VariantHistogram.merge(logs)
    yield from method.foretold(variants, config.method_params)
