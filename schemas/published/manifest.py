"""The manifest of a release, what it promises, and how much of the log it contains."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from decimal import ROUND_CEILING, Context, Decimal
from fractions import Fraction
from typing import Any, ClassVar, Literal

from tracecloak.schemas.errors import UsageError

# --- What a release promises, in numbers and in a sentence that a privacy officer can file. -------


Kind = Literal["rigorous", "published", "syntactic"]
Unit = Literal["case", "individual", "event"]
Adjacency = Literal["add_remove", "replace_one"]
Population = Literal["input", "query result"]

_UNITS = {
    "case": "any one case",
    "individual": "every case of any one individual",
    "event": "any one event",
}
ORDERED_BY_NAME = (
    "In each case, events with equal timestamps are ordered by name: the input does not say which "
    "of them came first."
)
"""What a release says of an input whose records have no order."""
# The longest number that is written without an exponent.
_MANY_PLACES = 20
_SIX_DIGITS = Context(prec=6, rounding=ROUND_CEILING)
_POPULATIONS = {"input": "the input", "query result": "the result of a query"}
_CHANGES = {
    "add_remove": "is added to or removed from {}",
    "replace_one": "is replaced in {} by another",
}


def at_most(value: float | Fraction) -> str:
    """Returns a number of at most six digits that is not below the value, for a sentence.

    An epsilon that was rounded down would be one that does not hold.

    Args:
        value: At least 0; a float stands for the decimal that is its shortest text.
    """
    exact = Fraction(repr(value)) if isinstance(value, float) else Fraction(value)
    number = _SIX_DIGITS.divide(Decimal(exact.numerator), Decimal(exact.denominator)).normalize()
    plain = f"{number:f}"
    return plain if len(plain) <= _MANY_PLACES else f"{number:e}"


@dataclass(frozen=True)
class Guarantee:
    """The promise of one release.

    Attributes:
        kind: `rigorous`: epsilon and delta hold for everything in the release. `published`: the
            paper's claim, which does not hold for the whole release. `syntactic`: a property of the
            released bytes, verified on them.
        unit: What one person is taken to be.
        adjacency: Which change of the input the promise is about.
        epsilon: The epsilon that really holds for the whole release, or None: no finite one does.
        delta: The delta that goes with it, or None.
        claim: For `published`: what the paper claims.
        reality: Why the claim is or is not what holds, in sentences.
        not_covered: What the release shows or allows beyond the promise, one sentence each.
        population: Of what the units are that the promise is for.
    """

    kind: Kind
    unit: Unit
    adjacency: Adjacency
    epsilon: float | None
    delta: float | None
    claim: str
    reality: str
    not_covered: tuple[str, ...] = ()
    population: Population = "input"

    def __post_init__(self) -> None:
        if self.kind == "rigorous" and (self.epsilon is None or self.delta is None):
            raise UsageError("a rigorous guarantee needs epsilon and delta")

    @classmethod
    def without_epsilon(
        cls, kind: Kind, claim: str, reality: str, not_covered: tuple[str, ...]
    ) -> Guarantee:
        """Returns a promise about cases for which no finite epsilon holds."""
        return cls(kind, "case", "add_remove", None, None, claim, reality, not_covered)

    def with_order_note(self, is_by_name: bool) -> Guarantee:
        """Returns the promise; where names order events with equal timestamps, it says so."""
        if not is_by_name:
            return self
        return replace(self, not_covered=(*self.not_covered, ORDERED_BY_NAME))

    @property
    def order_sentence(self) -> str:
        """Says that names order events with equal timestamps, if they do; else empty."""
        return ORDERED_BY_NAME if ORDERED_BY_NAME in self.not_covered else ""

    @property
    def sentence(self) -> str:
        """One sentence for the file of a privacy officer."""
        change = (
            f"{_UNITS[self.unit]} {_CHANGES[self.adjacency].format(_POPULATIONS[self.population])}"
        )
        epsilon, delta = (at_most(number or 0) for number in (self.epsilon, self.delta))
        if self.kind == "rigorous":
            # The sentence does not say "except with probability delta", since e^epsilon is exceeded
            # more often than that, by less.
            return (
                f"If {change}, the probability of whatever the release may show becomes at most "
                f"e^{epsilon} times what it was{f', plus {delta}' if self.delta else ''}."
            )
        if self.kind == "syntactic":
            return (
                f"{self.claim} This was verified on the released files; it is no differential "
                "privacy."
            )
        if self.epsilon is None:
            return (
                f"No finite epsilon holds for this release if {change}. "
                f"Published claim: {self.claim}"
            )
        return (
            f"If {change}, epsilon {epsilon} with delta {delta} holds for the whole "
            f"release, not what was published. Published claim: {self.claim}"
        )

    def to_json(self) -> dict[str, Any]:
        """Returns the fields and the sentence as JSON values, the usual population aside."""
        body = {**asdict(self), "not_covered": list(self.not_covered), "sentence": self.sentence}
        if self.population == "input":
            del body["population"]
        return body


# --- How much came out of a release: a few sums of what is published, which cost no privacy. ------


Usability = Literal["usable", "not_usable", "not_judged"]

_HALF = 0.5


@dataclass(frozen=True)
class Yield:
    """What a release holds, by its released numbers alone; None where it has no such number.

    Shares have four decimals, as in a manifest, so that whoever has that says the same of them.

    Attributes:
        n_cases: Cases, as they were released: a log's, those of variants, or those that begin in
            a graph; 0 of a graph with paths says nothing of them, see `lacks_starts`.
        n_variants: Distinct sequences of activities.
        n_activities: Named activities that occur; OTHER is none.
        n_edges: Pairs of a directly-follows graph with a count.
        named_share: Of all occurrences of activities, the share that has a name and is not OTHER.
        case_share: Of the noisy number of cases, the share that the released variants were found
            to have, before they were multiplied to that number.
        max_events: Events of the longest case, of a log or of variants.
        longest_share: Of the cases, the share that has so many events.
        unclear_share: Of the sum of all released counts, the share of those that are noise, see
            `schemas.published.figures`; of figures, the share of those that are.
        n_figures: Figures with intervals that are released in a list.
    """

    wire_name: ClassVar[str] = "yield"

    n_cases: int | None = None
    n_variants: int | None = None
    n_activities: int | None = None
    n_edges: int | None = None
    named_share: float | None = None
    case_share: float | None = None
    max_events: int | None = None
    longest_share: float | None = None
    unclear_share: float | None = None
    n_figures: int | None = None

    def __post_init__(self) -> None:
        for name in ("named_share", "case_share", "longest_share", "unclear_share"):
            share = getattr(self, name)
            if share is not None:
                object.__setattr__(self, name, round(share, 4))

    def beside(self, other: Yield) -> Yield:
        """Returns these numbers, and where there is none, those of another part of the release."""
        return Yield(**{n: getattr(other, n) if v is None else v for n, v in vars(self).items()})

    @property
    def is_empty(self) -> bool:
        """Whether nothing was released that anybody can use: no case, or none with a name."""
        return self.n_activities == 0 or (self.n_cases == 0 and not self.n_edges)

    @property
    def is_unclear(self) -> bool:
        """Whether half of all that is counted, or more, is in counts that say next to nothing."""
        return self.unclear_share is not None and self.unclear_share >= _HALF

    @property
    def usability(self) -> Usability:
        """Whether anybody can use it, by these numbers alone.

        `not_judged` where no count has an interval, as in a log that was drawn from a model.
        """
        if self.is_empty or self.is_unclear:
            return "not_usable"
        return "not_judged" if self.unclear_share is None else "usable"

    @property
    def lacks_starts(self) -> bool:
        """Whether a graph has paths and none from the start, so that its cases are not counted."""
        return self.n_cases == 0 and not self.is_empty

    def to_json(self) -> dict[str, Any]:
        """Returns the numbers; of lengths and of figures only where there are some."""
        return {n: v for n, v in vars(self).items() if v is not None or n not in _OF_SOME}


_OF_SOME = ("max_events", "longest_share", "n_figures")


# --- The manifest: what was released, by which method, with which promise; safe to publish. -------
# It holds parameters, digests of released files, and versions. Nothing in it is counted on the
# input: no numbers of cases, no input file names, no digest of the input, and no time but the day
# on which the release was paid for.


SCHEMA_VERSION = 1
MANIFEST_NAME = "manifest.json"
SIGNATURE_NAMES = (f"{MANIFEST_NAME}.sig", f"{MANIFEST_NAME}.pub")
"""The signature of the manifest's bytes, and the public key of its signer; both are optional."""

TOOL_VERSION = "0.2.0.dev0"
"""The version of tracecloak, which `setup.py` reads here: a checkout, an editable install, an sdist
and a wheel have the one of their sources, whatever metadata of a package lies about. Between two
versions it is the next one's with `.dev0`: whose words are others is not the version before."""


@dataclass(frozen=True)
class Operation:
    """One thing that a method does to a log, in the words of the XES privacy extension.

    Attributes:
        type: suppression, addition, substitution, condensation, swapping, generalization or
            cryptography.
        level: `case` or `event`.
        target: The attribute that it is done to, an XES key.
    """

    type: str
    level: Literal["case", "event"]
    target: str


CONDENSED = Operation("condensation", "event", "concept:name")
"""Numbers of activities are released, and no events."""
SUPPRESSED_TIMES = Operation("suppression", "event", "time:timestamp")
SUPPRESSED_STARTS = Operation("suppression", "case", "time:timestamp")
"""All cases begin at one public time, and times are since then."""

STAMPED = "0.1."
"""How versions begin that wrote seconds from 1970 on for what has no times."""


def has_times(operations: Iterable[Operation | Mapping[str, Any]]) -> bool:
    """Returns whether a release has times, by the operations of its manifest.

    The log of one without times has `event_index` in their place, and nothing that is shown,
    measured or computed of it may be of times.
    """
    return not any(o in (SUPPRESSED_TIMES, vars(SUPPRESSED_TIMES)) for o in operations)


def has_starts(operations: Iterable[Operation | Mapping[str, Any]]) -> bool:
    """Returns whether a release that has times contains when cases begin; see `has_times`."""
    return not any(o in (SUPPRESSED_STARTS, vars(SUPPRESSED_STARTS)) for o in operations)


@dataclass(frozen=True)
class OutputFile:
    """A released file.

    Attributes:
        path: Relative to the release's folder.
        sha256: Of its bytes, 64 hex digits.
        n_bytes: Its size.
    """

    path: str
    sha256: str
    n_bytes: int


@dataclass(frozen=True)
class ReleaseManifest:
    """Everything about a release but its files.

    Attributes:
        release_id: Its name.
        method: Name of the method.
        method_version: Its version, by which it is made again and checked.
        params: The method's parameters, defaults included.
        guarantee: What it promises.
        operations: What the method does to the log.
        spends: The parts of epsilon and delta, as JSON values; none without a finite epsilon.
        config_digest: Digest of all that determines the released bytes beside input, key, version,
            and the filters, whose values can be of the data.
        key_fingerprint: Tells release keys apart.
        exact_noise: Whether the noise came from exact samplers.
        unsafe_barrier: Whether the runner may count again after noise was drawn, as local runners
            may; with keyed noise a repetition gives the same bytes.
        beam_version: Of Apache Beam, or None for a release made without it.
        came_out: What the release holds, by its own numbers; None before it is known.
        about: What whoever made it declares: title, data_subjects, data_period, controller, contact
            and purpose, those that there are.
        released_on: The day, in UTC, on which its budget was reserved, which a repetition keeps,
            such as 2026-11-23; None where nobody noted it.
        window: Which window of a schedule it is of, as `schemas.windows` tells it, and what all
            windows together cost; None: it is of none.
        time_caveats: What a reader of its times must know that they do not show, in sentences.
        noted: What else is said of it, by who says it; see `pipelines.release.values`.
        inner_versions: Versions above 1 of what the parameters name, by which it is made again.
        given: Those of the parameters that are others than by default; None: nobody knows which.
    """

    release_id: str
    method: str
    method_version: int
    params: dict[str, Any]
    guarantee: Guarantee
    operations: tuple[Operation, ...]
    spends: tuple[dict[str, Any], ...]
    config_digest: str
    key_fingerprint: str
    exact_noise: bool
    unsafe_barrier: bool
    beam_version: str | None
    came_out: Yield | None = None
    about: dict[str, str] = field(default_factory=dict)
    released_on: str | None = None
    window: dict[str, Any] | None = None
    time_caveats: tuple[str, ...] = ()
    noted: dict[str, Any] = field(default_factory=dict)
    given: dict[str, Any] | None = None
    inner_versions: dict[str, int] = field(default_factory=dict)

    def to_json(
        self, outputs: Sequence[OutputFile] | None = None, verified: bool = False
    ) -> dict[str, Any]:
        """Returns the manifest as JSON values.

        Args:
            outputs: The released files; None leaves them out, and with them what tells of the
                tool, of the runner and of the occasion: as in the metadata that the files carry,
                which are the same for all of these; and the parameters that are as by default, of
                which a later version may have more.
            verified: Whether the promise was checked on the released files.
        """
        body: dict[str, Any] = {
            "schema_version": SCHEMA_VERSION,
            "release_id": self.release_id,
            "method": self.method,
            "method_version": self.method_version,
            "params": self.params if outputs is not None or self.given is None else self.given,
            "guarantee": self.guarantee.to_json(),
            "operations": [asdict(operation) for operation in self.operations],
            "spends": list(self.spends),
            "randomness": {
                "keyed": True,
                "exact": self.exact_noise,
                "key_fingerprint": self.key_fingerprint,
            },
            "config_digest": self.config_digest,
            **self._if_any("inner_versions", "window"),
        }
        if outputs is None:
            return body
        came_out = self.came_out or Yield()
        return {
            **body,
            "tool": {"name": "tracecloak", "version": TOOL_VERSION, "beam": self.beam_version},
            "about": dict(self.about),
            "released_on": self.released_on,
            "verified": verified,
            **self._if_any("time_caveats", "noted"),
            "came_out": came_out.to_json(),
            "usability": came_out.usability,
            "randomness": {**body["randomness"], "unsafe_barrier": self.unsafe_barrier},
            "outputs": [asdict(o) for o in sorted(outputs, key=lambda o: o.path)],
        }

    def _if_any(self, *names: str) -> dict[str, Any]:
        said = {name: getattr(self, name) for name in names}
        return {n: list(v) if isinstance(v, tuple) else dict(v) for n, v in said.items() if v}

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> ReleaseManifest:
        """Returns the manifest that `to_json` wrote with its outputs, which are not kept.

        Args:
            body: Valid by the JSON Schema of manifests.
        """
        stated = {"population": "input", **body["guarantee"]}
        given = {name: stated[name] for name in (f.name for f in fields(Guarantee))}
        always = ("release_id", "method", "method_version", "params", "config_digest")
        at_times = ("about", "released_on", "window", "noted", "inner_versions")
        return cls(
            **{name: body[name] for name in always},
            **{name: body[name] for name in at_times if name in body},
            guarantee=Guarantee(**{**given, "not_covered": tuple(given["not_covered"])}),
            operations=tuple(Operation(**operation) for operation in body["operations"]),
            spends=tuple(body["spends"]),
            key_fingerprint=body["randomness"]["key_fingerprint"],
            exact_noise=body["randomness"]["exact"],
            unsafe_barrier=body["randomness"]["unsafe_barrier"],
            beam_version=body["tool"]["beam"],
            came_out=Yield(**body["came_out"]),
            time_caveats=tuple(body.get("time_caveats", ())),
        )
