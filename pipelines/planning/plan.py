"""Plans: what a release costs and how good it will be, and the least epsilon for a target."""

from __future__ import annotations

import datetime
import math
import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import Any, cast

import pyarrow as pa
import pyarrow.compute as pc
import yaml

from tracecloak.anonymizers.accounting.composition import decimal_text, joint_sentence, total
from tracecloak.anonymizers.contract.method import Anonymizer, FigureError
from tracecloak.pipelines.configuration.config import FRAME
from tracecloak.pipelines.configuration.plan import ReleasePlan, source_of
from tracecloak.pipelines.planning import utility
from tracecloak.pipelines.planning.findings import FirstLook, finding_lines
from tracecloak.pipelines.planning.names import spellings
from tracecloak.pipelines.planning.verdict import (
    Verdict,
    changed_params,
    judged_at,
    shortfall_at,
    unusable,
    unusable_sentence,
    with_recommendations,
)
from tracecloak.schemas.calendar.durations import duration_text
from tracecloak.schemas.calendar.local_time import DAY_US, zone_of
from tracecloak.schemas.errors import UsageError
from tracecloak.schemas.events.events import ACTIVITY
from tracecloak.schemas.events.tally import Noted
from tracecloak.schemas.events.traces import is_duplicate
from tracecloak.schemas.published.figures import LEGEND, SHARE
from tracecloak.schemas.statistics.variants import VariantHistogram
from tracecloak.schemas.texts import FORMULA_BEGINNINGS, formulas
from tracecloak.schemas.windows import Schedule
from tracecloak.transforms.inputs.source_files import SourceFile
from tracecloak.transforms.pages.page import from_template
from tracecloak.transforms.publish import release_folder
from tracecloak.transforms.publish.figures_data import duration_in_words
from tracecloak.transforms.publish.statement import caution
from tracecloak.transforms.sources import EventSource

# --- The epsilon by which a release is as good as somebody wants it, found on synthetic logs. -----
# A goal is `graph within 10 %`, `variants of 60 %`, `tree within 5 %`, or `figures` (of which all
# are of use then; `figures of 80 %` asks for as many). Of a regular and of a variable process
# (see `worth`), bisection finds the least epsilon of a grid, whose steps are a tenth, from which
# on the goal is reached: what is released is better by a larger epsilon, but for chance.


# From 0.01 to 16, two digits each, 24 in each power of ten.
EPSILONS = tuple(decimal_text(Fraction(f"{10 ** (k / 24):.1e}")) for k in range(-48, 30))
_KINDS: tuple[utility.Kind, ...] = ("graph", "variants", "tree", "figures")
_ROUNDING = 1e-9
_GOAL = re.compile(r"(?:(graph|tree) within|(variants|figures) of) (\d+(?:\.\d+)?) ?%|figures")


def read_goal(text: str) -> tuple[utility.Kind, float]:
    """Returns by what a release is judged, and how far it may be from all that there is.

    Raises:
        UsageError: That is not a goal.
    """
    found = _GOAL.fullmatch(text.strip())
    if found is None or not 0 <= (share := float(found[3] or 100) / 100) <= 1:
        raise UsageError(
            f"goal is {text!r}, and must be 'graph within 10 %', 'variants of 60 %', 'tree "
            "within 5 %', 'figures' or 'figures of 80 %'"
        )
    return cast(utility.Kind, found[1] or found[2] or "figures"), share if found[1] else 1 - share


@dataclass(frozen=True)
class Least:
    """The least epsilon for a goal.

    Attributes:
        text: The goal, as it was given.
        n_cases: Cases of the synthetic logs.
        epsilons: From which epsilon on the goal may be reached, and is; None: not up to the
            largest.
        best: The best that is likely with the largest of all.
        sentence: The least epsilon with its range, or how near one comes to the goal.
    """

    text: str
    n_cases: int
    epsilons: tuple[str | None, str | None]
    best: float
    sentence: str

    def to_json(self) -> dict[str, Any]:
        """Returns it as JSON values."""
        return {
            "for": self.text,
            "cases": self.n_cases,
            "epsilon": list(self.epsilons),
            "best_shortfall": round(self.best, 4),
        }


def least_epsilon(
    method: Anonymizer, params: Any, n_cases: int, text: str, n_variants: int | None = None
) -> Least:
    """Returns the least epsilon for a goal; from public numbers alone.

    Args:
        method: A rigorous method.
        params: Its parameters, whose epsilon is replaced.
        n_cases: Cases of the synthetic logs.
        text: The goal.
        n_variants: How many variants they have, if that is declared.

    Raises:
        UsageError: That is no goal, or none of this method, or the method takes no epsilon.
    """
    kind, shortfall = read_goal(text)

    @lru_cache
    def between(place: int) -> tuple[float, ...]:
        changed = _with(method, params, place)
        if kind == "tree":
            return (shortfall_at(method, changed, n_cases, kind),) * 2
        return tuple(
            end.shortfall(kind) for end in utility.ends_at(method, changed, n_cases, n_variants)
        )

    grid = range(len(EPSILONS))
    best = between(len(EPSILONS) - 1)[0]
    if math.isinf(best):
        worth = utility.median_utility(method, _with(method, params, -1), n_cases)
        judged = [name for name in _KINDS if math.isfinite(worth.shortfall(name))]
        raise UsageError(
            f"goal is {text!r}, and what {method.name} releases is judged by "
            f"{' or '.join(judged) or 'nothing that could be foretold'}"
        )

    places = [
        bisect_left(grid, True, key=lambda place: between(place)[end] <= shortfall + _ROUNDING)
        for end in (0, 1)
    ]
    least, most = (EPSILONS[place] if place < len(EPSILONS) else None for place in places)
    sentence = f"For {text!r}, with {n_cases:,} cases: "
    if least is None:  # the best is rounded away from the goal, which it is not
        nearest = utility.in_words(kind, math.ceil(100 * best) / 100)
        sentence += f"not reached up to epsilon {EPSILONS[-1]}, whose best is {nearest}."
    else:
        up_to = most or f"more than {EPSILONS[-1]}"
        range_text = f"{least} to {up_to}, depending on {utility.unknown(n_variants)}."
        alone = f"{least} at least, by public numbers alone."
        promise = method.guarantee(_with(method, params, min(places[1], len(EPSILONS) - 1)))
        sentence += f"epsilon {alone if least == most else range_text} {caution(promise)}".rstrip()
    return Least(text, n_cases, (least, most), best, sentence)


def _with(method: Anonymizer, params: Any, place: int) -> Any:
    changed = changed_params(params, epsilon=EPSILONS[place])
    if changed is None:
        raise UsageError(
            f"a goal asks for the least epsilon, and {method.name} takes none with these parameters"
        )
    return changed


# --- What a release would read, do, spend and write; needs no Beam. -------------------------------
# Of values it reads the first records alone, to say whether the configuration fits them; and the
# whole of a small log for a method that promises no epsilon and can foretell something of it.
#
# What a plan says of the first records that a profile says more of.
#
# The table of a plan that says how far each figure of a list will be off.
#
# What a plan says of the windows of a schedule: what one is, when it is due, what all cost.
#
# Of public numbers alone; the data is not looked at.


# Columns that often tell when events began; looked for by their names alone.
_UNREAD_ENDS = frozenset({"lifecycle:transition", "lifecycle", "start_timestamp"})
# Files that are listed one by one, and how many of a folder are where there are more.
_LISTED_FILES = 20
_FIRST_FILES = 3
# Up to so many bytes a plan reads the whole log, if the method can foretell something of it.
_FORETOLD_BYTES = 64_000_000


@dataclass(frozen=True, repr=False)
class Plan:
    """What a release would do.

    Attributes:
        first: What matters most: the verdict, what would help most, what it costs and what is left;
            then the goal that was asked for, and warnings.
        details: What it reads, does, promises, spends and writes.
        verdicts: Whether it would be worth it, for each number of cases; none where no noise is
            drawn that could be foretold.
        is_refused: Whether `release` refuses it, as nobody could use it by public numbers.
        least: The least epsilon for a goal, if one was given.
        price: The epsilon and delta that it costs; None: they are not finite.
    """

    first: tuple[str, ...]
    details: tuple[str, ...]
    verdicts: tuple[Verdict, ...]
    is_refused: bool
    least: Least | None = None
    price: tuple[Fraction | None, Fraction | None] = (None, None)

    @property
    def lines(self) -> tuple[str, ...]:
        """All of it."""
        return (*self.first, "", *self.details)

    def __repr__(self) -> str:
        """Returns what matters most, as a screen or a notebook shows it."""
        return "\n".join([*self.first, "", "The rest is in its `details`."])


def plan_of(
    release: ReleasePlan, source: EventSource | None = None, cost: str = "", goal: str = ""
) -> Plan:
    """Returns the plan.

    Args:
        release: What would be released, for whose expected cases it says what that would be worth;
            where none are declared, for some numbers of cases.
        source: What it would be released of; None: the files that it names.
        cost: What its account pays and has left, in a sentence.
        goal: How good it is to be, such as "graph within 10 %"; empty: no goal.

    Raises:
        UsageError: An input's format is not known, or the goal is none that the method can have.
        InputSchemaError: An input is not there, or does not have the mapped columns, or its first
            records cannot be read.
    """
    source = source_of(release) if source is None else source
    look = FirstLook.at(release, source)
    method, params, keys = release.method, release.params, release.keys
    sizes = utility.SIZES if keys.expected_cases is None else (keys.expected_cases,)
    middle, n_variants = len(sizes) // 2, keys.expected_variants
    public: list[Verdict] = []  # before the log is looked at, so that it decides nothing of them
    if release.guarantee.kind == "rigorous":
        public = [judged_at(method, params, n_cases, n_variants) for n_cases in sizes]
    against = unusable(release, public)
    if public and (against is not None or not look.obstacle):
        public[middle] = with_recommendations(release, public[middle])
    least = None
    if goal:
        least = least_epsilon(method, params, sizes[middle], goal, n_variants)
    judged = tuple(public)
    if look.obstacle:  # whatever the size is
        judged = tuple(
            replace(verdict, grade="no", remedy=None, obstacle=look.obstacle) for verdict in public
        )
    context = _context(release, source, look) | {
        "look": look,
        "judged": judged,
        "figures": list(figure_lines([one.worth for one in judged if one.worth.errors])),
        "against": None if against is None else unusable_sentence(replace(against, remedy=None)),
        "remedy": public[middle].remedy if public else None,
        "cost": cost,
        "least": least,
    }
    first, details = (
        from_template(__package__, name, **context) for name in ("first.txt.j2", "plan.txt.j2")
    )
    is_refused = against is not None and not keys.even_if_unusable
    price = release.epsilon, release.delta
    return Plan(tuple(first), tuple(details), judged, is_refused, least, price)


def _unread(source: EventSource) -> Iterator[str]:
    """Yields that columns are not read whose names say that they tell when events began."""
    for file in source.files[:_LISTED_FILES]:
        columns = source.columns_of(file)
        names = source.names_of(file, columns).values()
        unread = sorted(_UNREAD_ENDS.intersection(columns or ()).difference(names))
        if unread and not source.mapping.has_starts and not source.mapping.filters:
            yield (
                f"{', '.join(unread)} is not read: if it tells starts of events from completions, "
                "each event may count twice; see lifecycle and start_timestamp"
            )
            return


def _in_yaml(name: str, value: Any) -> list[str]:
    """Returns the lines of a parameter in a configuration file, a list of texts in one of them."""
    flow = None if isinstance(value, list | dict) else False
    text = yaml.safe_dump(
        {name: value},
        default_flow_style=flow,
        sort_keys=False,
        allow_unicode=True,
        width=math.inf,
    )
    return str(text).splitlines()


def _context(release: ReleasePlan, source: EventSource, look: FirstLook) -> dict[str, Any]:
    """Returns what a release reads, does, promises, spends and writes, for the templates."""
    params, schedule, keys = release.params, release.schedule, release.keys
    by_folder: dict[str, list[SourceFile]] = {}
    for file in source.files:
        by_folder.setdefault(file.folder, []).append(file)
    costs = list(release.method.costs(params))
    windows = () if schedule is None else schedule.windows()
    return {
        "release": release,
        "config": keys,
        "source": source,
        "finding_lines": finding_lines,
        "warnings": [*_unread(source), *hints(look), *[look.lost_steps] * bool(look.lost_steps)],
        "folders": list(by_folder.items()),
        "n_listed": _LISTED_FILES,
        "n_first": _FIRST_FILES,
        "parameters": [
            line for name, value in params.resolved().items() for line in _in_yaml(name, value)
        ],
        "costs": [*costs, *_foretold(release, source)] if costs else [],
        "guarantee": release.guarantee.with_order_note(source.is_by_name),
        "caution": caution(release.guarantee),
        "in_words": utility.in_words,
        "has_windows": schedule is not None,
        "is_unseen": keys.log == (FRAME,) and not source.files,
        "longest": lambda: max(window.end_us - window.begin_us for window in windows),
        "at": _at,
        "spoken": _spoken,
        "duration": duration_text,
        "joint_sentence": joint_sentence,
        "total": total,
        "decimal": decimal_text,
        "files": release_folder,
        "beginnings": FORMULA_BEGINNINGS,
        "alike": [repr(name) for name in formulas(getattr(params, "vocabulary", None) or ())],
    }


def _foretold(release: ReleasePlan, source: EventSource) -> Iterator[str]:
    """Yields what a method without an epsilon can say of the log itself, which is read for it."""
    method, keys = release.method, release.keys
    if keys.query is not None or keys.schedule is not None:
        return
    if not method.foretells(release.params):
        return
    n_bytes = sum(file.n_bytes for file in source.files)
    if n_bytes > _FORETOLD_BYTES:
        yield (
            f"The input has {n_bytes:,} bytes, so the number of cases is not foretold here: a plan "
            f"reads up to {_FORETOLD_BYTES:,} for it. A release says it before noise is drawn."
        )
        return
    yield from method.foretold(VariantHistogram.from_traces(source.log()), release.params)


def hints(look: FirstLook) -> Iterator[str]:
    """Yields a sentence if the first records suggest to look at all of them; no value of theirs."""
    events = look.records.events
    if not events or not look.records.tally.n_events:
        return
    names = pa.chunked_array([batch.column(ACTIVITY).cast(pa.string()) for batch in events])
    counts = {one["values"]: one["counts"] for one in pc.value_counts(names).to_pylist()}
    is_suspect = {
        "some activities have names that differ in case, blanks or signs alone": spellings(counts),
        "some events equal an earlier one of their case": is_duplicate(look.traces).any(),
        "some case ids are written as 5.0 and others as 5": any(
            finding.what == Noted.POINT_KEY for finding in look.records.tally.found()
        ),
    }
    if reasons := [reason for reason, holds in is_suspect.items() if holds]:
        yield (
            f"{', '.join(reasons)}; `tracecloak profile` says "
            "which and how many, with settings to paste"
        )


_PERCENT_UNITS = {SHARE: "points", "ranges": "% of the range"}


def figure_lines(sizes: Sequence[utility.UtilityEstimate]) -> Iterator[str]:
    """Yields the errors of all figures, a column for each number of cases.

    Args:
        sizes: What is foretold, of the same figures; none: of no list.
    """
    if not sizes:
        return
    yield "Is worth (95 % of all releases are within this of each figure; no log is looked at)"
    names = [error.figure for error in sizes[0].errors]
    columns = [
        [f"{w.n_cases:,} cases", *(f"± {_number(e)}, {e.grade}" for e in w.errors)] for w in sizes
    ]
    rows = zip(["", *names], *columns, strict=True)
    widths = [max(map(len, column)) for column in (["", *names], *columns)]
    for row in rows:
        first, *others = (text.ljust(width) for text, width in zip(row, widths, strict=True))
        yield f"  {'  '.join([first, *others]).rstrip()}"
    yield f"  {LEGEND}"
    yield "  Groups are taken to be of one size; a filter or a step, to hold for half of the cases."
    yield ""


def _number(error: FigureError) -> str:
    half = error.half_width
    if not math.isfinite(half):
        return "anything"
    if error.unit == "s":
        return duration_in_words(round(half * 1_000_000))
    if error.unit in _PERCENT_UNITS:
        return f"{100 * half:.2g} {_PERCENT_UNITS[error.unit]}"
    what = "cases of its rank" if error.unit == "ranks" else error.unit
    size = f"{math.ceil(half):,}" if half >= 10 or what else f"{half:.3g}"
    return f"{size} {what}".rstrip()


_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_YEAR_DAYS = 365.25
# From when on days are hard to picture.
_MANY_DAYS = 60


def _spoken(micros: int) -> str:
    """A duration, and about what it is where it has many days."""
    text, days = duration_text(micros), micros / DAY_US
    if days < _MANY_DAYS:
        return text
    years = round(2 * days / _YEAR_DAYS) / 2
    if years < 1:
        return f"{text} (about {12 * days / _YEAR_DAYS:.0f} months)"
    return f"{text} (about {years:g} year{'s' if years > 1 else ''})"


def _at(time_us: int, schedule: Schedule) -> str:
    """A moment by the clock of the zone, in which days and longer are meant; of hours in UTC."""
    zone = datetime.UTC if schedule.length.unit == "hour" else zone_of(schedule.time_zone)
    moment = (_EPOCH + datetime.timedelta(microseconds=time_us)).astimezone(zone)
    return moment.isoformat(" ", "minutes")
