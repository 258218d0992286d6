"""The protocol of a method: parameters, counters, decisions, products, errors of figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NoReturn, Protocol

import numpy as np
import pyarrow as pa
import pydantic

from tracecloak.anonymizers.accounting.composition import Spend
from tracecloak.anonymizers.contract.bounding import ContributionBounds
from tracecloak.anonymizers.contract.declarations import declarations
from tracecloak.anonymizers.noise.randomness import Randomness
from tracecloak.schemas.arrays.columnar import Columnar
from tracecloak.schemas.arrays.merging import Mergeable
from tracecloak.schemas.events.events import (
    EVENT_INDEX,
    OTHER,
    START_TIMESTAMP,
    START_TYPE,
    ActivityVocabulary,
)
from tracecloak.schemas.events.traces import TraceBatch
from tracecloak.schemas.published.figures import SHARE, Grade, ReleasedProduct, grade_of, wider_ends
from tracecloak.schemas.published.manifest import Guarantee, Kind, Operation, Yield, has_times

if TYPE_CHECKING:
    from tracecloak.anonymizers.rigorous.budget import Allowances
    from tracecloak.anonymizers.rigorous.parts_method import Part
    from tracecloak.schemas.events.declarations import Attribute
    from tracecloak.schemas.statistics.variants import VariantHistogram


# --- How far a figure will be off, as public numbers say it before anything is spent. -------------


@dataclass(frozen=True)
class FigureError:
    """Half the width of the 95 % interval that a figure will have.

    Attributes:
        figure: Its name, as in the release.
        half_width: In `unit`; infinite where nothing bounds it.
        unit: As of `schemas.published.figures`, or `ranks` for cases by which the rank of a
            quantile is off.
        likely: What the figure is taken to be, in the same unit.
        wanted: The half width that was asked for, in the figure's own unit; None: none was.
    """

    figure: str
    half_width: float
    unit: str
    likely: float
    wanted: float | None = None

    @property
    def grade(self) -> Grade:
        """The grade that the figure will have, if it is what it is taken to be."""
        ends = self.likely - self.half_width, self.likely + self.half_width
        if self.unit == SHARE:
            return grade_of(self.likely, *ends, "share")
        lows, highs = wider_ends(*np.array([self.likely, *ends])[:, None])
        return grade_of(self.likely, lows[0], highs[0])


# ---
# What a method is: rounds of counting and deciding, then, for some, a transformation of the log.
# The drivers (`anonymizers.contract.in_memory` and `transforms.batch.anonymize`) run every method
# alike:
#     `bounds` limit what one case or individual can contribute, on all traces
#     for each round:  COUNT what `requires` names on all traces, then `decide` on the totals
#     if the method transforms the log:  `apply` to every batch of traces
#     if it generates a log:  `generate` piece by piece
#     `products`: the tables and graphs that it releases beside a log or instead of one
#
# `decide` is called once a round and is the only place where noise is drawn on counts. `apply` and
# the counters see one batch at a time, in any order, so what they draw is keyed by case.


class Params(pydantic.BaseModel):
    """Parameters of a method; frozen, unknown names refused, every field described.

    A field's description says what it is, its unit and range, and what it costs in utility: it is
    the help of the flag of the same name.
    """

    model_config = pydantic.ConfigDict(
        frozen=True, extra="forbid", use_attribute_docstrings=True, defer_build=True
    )

    @property
    def bounds(self) -> ContributionBounds:
        """The public caps that every trace is brought under before it is counted."""
        return ContributionBounds()

    def expecting(self, n_cases: int) -> Params:
        """Returns the parameters for about so many cases, as was declared; by default the same.

        What follows from the number is a parameter then, so that it is part of the configuration.

        Args:
            n_cases: At least 1.
        """
        return self

    # Parameters that are none of those in effect where they are not given.
    _where_given: ClassVar[tuple[str, ...]] = ()

    def resolved(self) -> dict[str, Any]:
        """Returns the parameters in effect as JSON values, what a profile decides filled in."""
        whole, if_given = self.model_dump(mode="json"), self._where_given
        return {n: v for n, v in whole.items() if n not in if_given or v not in (None, False)}

    def given(self) -> dict[str, Any]:
        """Returns as JSON values the parameters that are others than by default.

        By these a configuration is told from another: a parameter that is left out and one that is
        given as it is by default are one. One with parts of its own is there with all of them, so
        that another default of a part is another configuration. Where a profile decides a default,
        its name is among them, and what is given as the profile has it is not.
        """
        whole = self.model_dump(mode="json")
        return {name: whole[name] for name in self.model_dump(exclude_defaults=True)}


class Decision(Columnar, wire_name="decision"):
    """What a round decided: a columnar value that every worker receives.

    It is of a class of its own, see `Columnar`; this one is of a round that decides nothing.
    """


class PartsDecision(Decision, wire_name="parts"):
    """What the parts of a round decided.

    Attributes:
        parts: By their names.
    """

    parts: dict[str, Any]


# What the rounds so far decided, by the name of the round.
Decisions = Mapping[str, Any]


class Counter(Protocol):
    """Counts one statistic on one batch; pickles, holds no data."""

    @property
    def kind(self) -> type[Mergeable]:
        """The statistic's type, whose `merge` totals the batches."""
        ...

    def count(self, traces: TraceBatch, decisions: Decisions, randomness: Randomness) -> Mergeable:
        """Returns the statistic of a batch.

        Args:
            traces: Complete cases, within the method's bounds.
            decisions: Those of the rounds before.
            randomness: The release's randomness; in the first round just its `unit_stream`, because
                the input's digest, on which all else depends, is still being counted.
        """
        ...


class Products(Columnar, wire_name="products"):
    """What a method releases beside a log or instead of one; safe to publish.

    Attributes:
        by_name: Products (`schemas.published.figures`) by the name of their files.
        came_out: What the decisions tell of the release that its log and products do not.
    """

    by_name: Mapping[str, ReleasedProduct]
    came_out: Yield = field(default_factory=Yield)

    @property
    def held(self) -> Yield:
        """What all of it holds; of what several have, that of figures, or the first by name."""
        in_order = sorted(self.by_name, key=lambda name: (name != "figures", name))
        parts = (self.by_name[name].came_out() for name in in_order)
        return reduce(Yield.beside, parts, self.came_out)


@dataclass(frozen=True)
class Given:
    """What a part is decided on.

    Attributes:
        statistics: The totals of its round, by name.
        decisions: What was decided before, by the names of parts or of rounds: in the rounds
            before, and by the parts of the same round that come before it.
        means: What each need of the release may spend, by name.
        randomness: The release's.
    """

    statistics: Mapping[str, Any]
    decisions: Mapping[str, Any]
    means: Allowances
    randomness: Randomness


class Declared(Protocol):
    """What `methods.json` declares: `class Amun(Anonymizer, name="amun")` is its entry `amun`."""

    def __init_subclass__(cls, name: str | None = None) -> None:
        """Gives a class its name, and what is declared of that method."""
        super().__init_subclass__()
        row = {} if name is None else {**declarations()[name], "name": name}
        if "operations" in row:
            row["operations"] = tuple(Operation(*given) for given in row["operations"])
        for key in row.keys() - {"class"}:
            is_list = key in ("written", "examples")
            setattr(cls, key, tuple(row[key]) if is_list else row[key])


class Anonymizer(Declared, Protocol):
    """One method; see the module.

    Attributes:
        name: As in the configuration and the manifest. It is part of the noise, and never given to
            another method, even when there is none of that name any more (`registry.REMOVED`).
        version: Which of its versions it is. It is part of the noise, and is raised whenever a
            default, also one that follows from other parameters, or any step up to the noise
            becomes another: `tests/golden/defaults.json` has what each version is.
        summary: What it does, in a line.
        guarantee_kind: Kind of its guarantee, unless parameters make it another.
        log: Where the released log comes from: `transformed` by `apply`, `generated` by
            `generate`, or `none`: only products are released.
        operations: What it does to a log, in the words of the XES privacy extension, unless
            parameters make it another, see `operations_of`.
        exact_noise: Whether all noise comes from exact samplers.
        verifies: Whether the promise is one of the released log, which `verify` checks on the files
            before they are committed.
        has_error_bars: Whether the numbers of its products stand with `low` and `high`, between
            which the log's lie with probability about 95 %.
        sums: What all that is released follows from: sums of directly-follows `pairs` or of `cells`
            of histograms, of which the `Noise` is told, so that audits look at them before anything
            is made of them; sums that are `released` as they are; or `none`.
        written: The names of its products, unless parameters make them others, see `writes`.
        examples: Parameters that show the method; the first is in the catalogue.
    """

    name: ClassVar[str] = ""
    version: ClassVar[int] = 1
    summary: ClassVar[str] = ""
    guarantee_kind: ClassVar[Kind] = "rigorous"
    log: ClassVar[Literal["transformed", "generated", "none"]] = "none"
    operations: ClassVar[tuple[Operation, ...]] = ()
    exact_noise: ClassVar[bool] = True
    verifies: ClassVar[bool] = False
    has_error_bars: ClassVar[bool] = False
    sums: ClassVar[Literal["none", "released", "pairs", "cells"]] = "none"
    written: ClassVar[tuple[str, ...]] = ()
    examples: ClassVar[tuple[Mapping[str, Any], ...]] = ({},)

    @property
    def Params(self) -> type[Params]:  # noqa: N802  # a type, named as one
        """The type of the method's parameters."""
        ...

    def bounds(self, params: Any) -> ContributionBounds:
        """Returns the public caps that every trace is brought under before it is counted."""
        bounds: ContributionBounds = params.bounds
        return bounds

    def attributes(self, params: Any) -> tuple[Attribute, ...]:
        """Returns the declared attributes that the method reads and releases, and none else.

        By default those that the parameters have as `declared`.

        The traces carry the texts of the source under their names, and the released ones must carry
        values of their types, in this order; `apply` and `generate` make them from what was
        decided. Traces that were made up can lack them, which is as if no event had a value.
        """
        declared: tuple[Attribute, ...] = getattr(params, "declared", ())
        return declared

    def releases_starts(self, params: Any) -> bool:
        """Returns whether the method reads and releases when events began.

        Then traces carry START_TIMESTAMP among their attributes, before all others.
        """
        return False

    def carried(self, params: Any) -> dict[str, pa.DataType]:
        """Returns what a released log has beside RELEASED_SCHEMA, by name: starts and attributes.

        Nothing else of a trace's attributes may be looked at.
        """
        starts = {START_TIMESTAMP: START_TYPE} if self.releases_starts(params) else {}
        return starts | {a.name: a.arrow_type for a in self.attributes(params)}

    def operations_of(self, params: Any) -> tuple[Operation, ...]:
        """Returns what it does to a log; by default `operations`, whatever the parameters.

        With SUPPRESSED_TIMES the cases that it generates have EVENT_INDEX as an attribute.
        """
        return self.operations

    def released_columns(self, params: Any) -> dict[str, pa.DataType]:
        """Returns what a released log has by `released_schema`.

        That is what is `carried`, after EVENT_INDEX where there are no times.
        """
        order = {} if has_times(self.operations_of(params)) else {EVENT_INDEX: pa.int64()}
        return order | self.carried(params)

    def inner_versions(self, params: Any) -> Mapping[str, int]:
        """Returns the versions of what the parameters name in tables of their own, as generators.

        By name, those above 1. They are part of the noise as `version` is, and a release that drew
        noise is not finished with others.
        """
        return {}

    def spends(self, params: Any) -> tuple[Spend, ...]:
        """Returns the parts of the guarantee; they add up to it. Without a finite one, none."""
        return ()

    def shares_by_case(self, params: Any) -> bool:
        """Returns whether j of an individual's m cases cost at most j/m of what is paid.

        This must hold for epsilon and for delta, and for every j up to m, which is the
        `max_cases_per_individual` of `bounds`. Then an individual's cases may be in several
        releases that pay for m cases each, and all of them together cost what the dearest one costs
        (`anonymizers.accounting.composed`). A method returns True only if this is proved and
        tested; one that bounds or clips an individual's cases together cannot. It does not matter
        where an individual has one case, or where the unit is the case.
        """
        return False

    def guarantee(self, params: Any) -> Guarantee:
        """Returns what really holds, before anything runs."""
        ...

    def costs(self, params: Any) -> tuple[str, ...]:
        """Returns sentences on what the parameters cost in utility, from public numbers alone."""
        return ()

    def figure_errors(self, params: Any, n_cases: int) -> tuple[FigureError, ...]:
        """Returns how far each figure of a list is off in a log of so many cases; none of a log.

        From public numbers alone.

        Raises:
            UsageError: Noise as wide as some figure may need cannot be drawn.
        """
        return ()

    def time_caveats(self, params: Any) -> tuple[str, ...]:
        """Returns what a reader of the released times must know that they do not show.

        Sentences for everybody, by the parameters alone; none where no times are released.
        """
        return ()

    def foretells(self, params: Any) -> bool:
        """Returns whether `foretold` has something to say of a log; of a rigorous release, no.

        Then the statistic `variants` of the first round is one of all its variants.
        """
        return False

    def foretold(self, variants: VariantHistogram, params: Any) -> tuple[str, ...]:
        """Returns sentences on what a release of a log will be like, for its operator alone.

        Draws nothing that a release draws.

        Args:
            variants: Of the whole log, exact.
            params: Those of the release.
        """
        return ()

    def known(self, decisions: Decisions) -> Mapping[str, Any]:
        """Returns what was decided in the rounds before as counters and parts look for it.

        By the names of rounds, or where a round decided all parts by those of its parts.
        """
        known: dict[str, Any] = {}
        for name, one in decisions.items():
            known |= one.parts if isinstance(one, PartsDecision) else {name: one}
        return known

    def parts(self, params: Any) -> tuple[Part, ...]:
        """Returns the parts in the order in which they are decided; by default the parameters'.

        A method without parts says its rounds, and what each of them counts and decides, itself.

        Raises:
            UsageError: The parameters cannot be kept, by public numbers.
        """
        parts: tuple[Part, ...] = getattr(params, "parts", ())
        return parts

    def means(self, params: Any) -> Allowances:
        """Returns what each need of the parts may spend, by name; by default there is none."""
        return {}

    def combined(
        self, round_name: str, decided: dict[str, Any], given: Given, params: Any
    ) -> Decision:
        """Returns the decision of a round; by default that of its last part.

        Looks at what was decided alone, which costs nothing.

        Args:
            round_name: The round.
            decided: What its parts decided, by their names.
            given: What the first of them was decided on.
            params: The method's.
        """
        decision: Decision = [*decided.values()][-1]
        return decision

    def notes(self, round_name: str, params: Any) -> bool:
        """Returns whether a round's noisy sums are published: its noise has the `measures` then."""
        return False

    def rounds(self, params: Any) -> tuple[str, ...]:
        """Returns the rounds of the parts, in the order in which they come first."""
        return tuple(dict.fromkeys(part.round for part in self.parts(params)))

    def explain(self, params: Any) -> tuple[str, ...]:
        """Returns a sentence for each part."""
        means = self.means(params)
        return tuple(f"{part.name}: {part.sentence(means)}" for part in self.parts(params))

    def requires(self, round_name: str, params: Any) -> Mapping[str, Counter]:
        """Returns what is counted for the parts of a round, by name."""
        parts = (part for part in self.parts(params) if part.round == round_name)
        return {name: counter for part in parts for name, counter in part.counters.items()}

    def keeps(self, round_name: str, params: Any) -> bool:
        """Returns whether a part of the round drops something."""
        return any(part.keep for part in self.parts(params) if part.round == round_name)

    def keep(
        self,
        round_name: str,
        statistics: Mapping[str, Any],
        decisions: Decisions,
        params: Any,
        randomness: Randomness,
    ) -> Mapping[str, Any]:
        """Returns what `decide` needs of a part of the totals, whatever the other parts are.

        Where noise is keyed by row, a row that its own noise keeps below a threshold is dropped on
        the worker of its part. Deciding on all that is kept of the parts of the totals, see
        `OfArrays.split`, must be deciding on the totals. Only called where `keeps` returns True.
        """
        given = Given(statistics, self.known(decisions), self.means(params), randomness)
        kept = dict(statistics)
        for part in self.parts(params):
            if part.round == round_name and part.keep is not None:
                kept |= part.keep(given)
        return kept

    def decide(
        self,
        round_name: str,
        statistics: Mapping[str, Any],
        decisions: Decisions,
        params: Any,
        randomness: Randomness,
    ) -> Decision:
        """Decides a round on the totals, its parts one after the other.

        Pure, and with `keep` the only place for noise on counts. Where the guarantee is rigorous
        nothing in the statistics or the noise may be a reason to raise. `Params`, `guarantee` or
        `spends` refuse what cannot be done, by public numbers.

        Raises:
            GuaranteeError: The promise, which is no rigorous one, cannot be kept on this input.
        """
        known, means = self.known(decisions), self.means(params)
        if self.notes(round_name, params):
            from tracecloak.anonymizers.noise.sums import MeasureRecorder

            randomness = randomness.with_noise(MeasureRecorder(randomness.noise))
        decided: dict[str, Any] = {}
        for part in self.parts(params):
            if part.round == round_name:
                given = Given(statistics, {**known, **decided}, means, randomness)
                decided[part.name] = part.decide(given)
        given = Given(statistics, known, means, randomness)
        return self.combined(round_name, decided, given, params)

    def apply(
        self, traces: TraceBatch, decisions: Decisions, params: Any, randomness: Randomness
    ) -> TraceBatch:
        """Transforms one batch; its case ids are new ones, distinct over all batches.

        Only called where `log` is `transformed`.
        """
        return _has_no(self.name, "apply")

    def generate(
        self,
        piece: int,
        n_pieces: int,
        decisions: Decisions,
        params: Any,
        randomness: Randomness,
    ) -> TraceBatch:
        """Makes one piece of the log from the decisions alone; reads no trace.

        The union of the pieces does not depend on their number. Only called where `log` is
        `generated`.
        """
        return _has_no(self.name, "generate")

    def verify(self, released: Sequence[TraceBatch], params: Any) -> None:
        """Checks the promise on a whole released log, and looks at nothing else.

        Only called where `verifies` is set.

        Args:
            released: All its cases, in batches of one vocabulary, as read from the files.
            params: Those of the release.

        Raises:
            GuaranteeError: It does not hold.
        """
        _has_no(self.name, "verify")

    def writes(self, params: Any) -> tuple[str, ...]:
        """Returns the names of the products, before anything runs; by default `written`."""
        return self.written

    def products(self, decisions: Decisions, params: Any) -> Products:
        """Returns what is released beside the log, from the decisions alone.

        By default what the last decision has under the names of the products.
        """
        *_, last = (None, *decisions.values())
        found = {name: getattr(last, name) for name in self.writes(params)}
        return Products({name: one for name, one in found.items() if one is not None})


def _has_no(method: str, step: str) -> NoReturn:
    raise NotImplementedError(f"{method} has no {step}: its `log` or `verifies` says so")


# --- Which names of activities are public: a parameter that methods have in common. ---------------


class NamesParams(Params):
    """Parameters of methods to which a public list of activities can be given."""

    vocabulary: tuple[str, ...] | None = None
    """Public file of activity names, one a line; any other activity counts as __other__. Without
    it the names are the input's own, and no finite epsilon holds."""
    closed_vocabulary: bool = False
    """Declare that the vocabulary has all activities: no number is spent on __other__ then, and a
    record with another activity is a reject."""

    @pydantic.model_validator(mode="after")
    def _check_closed(self) -> NamesParams:
        if self.closed_vocabulary and self.vocabulary is None:
            raise ValueError("closed_vocabulary is about the names of vocabulary: give that too")
        return self

    @property
    def max_units(self) -> int:
        """Cases that one unit of privacy can have: 1, or those of an individual that count."""
        return getattr(self, "max_cases_per_individual", None) or 1

    @property
    def longest_case(self) -> int | None:
        """Events of a case that can count, public; None: all of them, or as many as are bought."""
        return getattr(self, "max_trace_length", None)

    @property
    def bounds(self) -> ContributionBounds:
        """The public caps, by those of the parameters that the method has."""
        individual = getattr(self, "max_cases_per_individual", None)
        return ContributionBounds(
            self.vocabulary, self.longest_case, individual, self.closed_vocabulary
        )

    @property
    def n_words(self) -> int | None:
        """Number of names of `words`, which need not be made for it; None without any."""
        if self.vocabulary is None:
            return None
        return len({*self.vocabulary, *(() if self.closed_vocabulary else (OTHER,))})

    @property
    def words(self) -> ActivityVocabulary | None:
        """The public names, with OTHER unless they are closed; None without any."""
        if self.vocabulary is None:
            return None
        return ActivityVocabulary.public(self.vocabulary, self.closed_vocabulary)

    def names_in_effect(self, names: ActivityVocabulary) -> ActivityVocabulary:
        """Returns the public names, whatever the log has, or those of the log, which are given."""
        return names if self.words is None else self.words
