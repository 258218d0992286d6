"""How much came out of a release: a few sums of what is published, which cost no privacy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Literal

Usability = Literal["usable", "not_usable", "not_judged"]

_HALF = 0.5
_ALL = 0.995  # what is 100 % in whole per cents
# If more of the released cases have the declared length, it is likely to have cut some.
_CUT = 0.02


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
        numbers = {f.name: getattr(self, f.name) for f in fields(self)}
        return Yield(**{n: getattr(other, n) if v is None else v for n, v in numbers.items()})

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

    @property
    def is_poor(self) -> bool:
        """Whether what was released stands for less than half of the log."""
        shares = [share for share in (self.named_share, self.case_share) if share is not None]
        return not self.is_empty and any(share < _HALF for share in shares)

    @property
    def sentence(self) -> str:
        """What came out, in words; empty where there is no number."""
        from tracecloak.schemas.events.vocabulary import OTHER  # a manifest must load without numpy

        counts = [
            _counted(None if self.lacks_starts else self.n_cases, "case"),
            _counted(self.n_variants, "variant"),
            _counted(self.n_activities, "named activity", "named activities"),
            _counted(self.n_edges, "edge"),
            _counted(self.n_figures, "figure"),
        ]
        text = ", ".join(part for part in counts if part)
        if not text:
            return ""
        sentences = [f"{text} came out{self._of_figures}."]
        if self.is_unclear and not self.is_empty:
            sentences.insert(0, self._unclear_sentence)
        if self.named_share is not None and 0 < self.named_share < _ALL:
            sentences.append(
                f"{self.named_share:.0%} of all occurrences have the name of an activity, the "
                f"others are {OTHER}."
            )
        if self.case_share is not None and self.case_share < _ALL and not self.is_empty:
            sentences.append(
                f"The variants that were found have {self.case_share:.0%} of the noisy number of "
                "cases, and were multiplied to it: what the other cases did is not in the log."
            )
        if self.lacks_starts:
            sentences.append(
                "No path from the start stands out of the noise: how many cases there are, and "
                "with which activities they begin and end, is not in it."
            )
        if self.is_empty:
            why = "the noise is larger than what there was to count"
            if self.n_cases:
                why = "no activity has its name in it, so nobody can tell what happened"
            sentences.append(f"Nothing of it is of use: {why}.")
        return " ".join(sentences)

    @property
    def _of_figures(self) -> str:
        """How many of the figures are noise, as a part of a sentence."""
        if self.n_figures is None or self.unclear_share is None:
            return ""
        n = round(self.n_figures * self.unclear_share)
        return f", {n:,} of them noise" if n else ""

    @property
    def _unclear_sentence(self) -> str:
        if self.n_figures is not None:
            return (
                f"NOT USABLE: {self.unclear_share:.0%} of the figures are noise. "
                "More cases, fewer figures, tighter bounds or a larger epsilon would help."
            )
        return (
            f"NOT USABLE: {self.unclear_share:.0%} of all that is counted is in counts whose "
            "grade is noise. More cases, fewer activities or groups of "
            "them, or a larger epsilon would help."
        )

    def sentence_of(self, params: Mapping[str, Any]) -> str:
        """Returns what came out, in words, and which limits on what counts are likely to matter.

        Args:
            params: The method's parameters, as in the manifest.
        """
        most, sentences = params.get("max_cases_per_individual"), [self.sentence]
        if most and self.sentence:
            sentences.append(
                f"Of each individual at most {_counted(most, 'case')} counted: where individuals "
                "have more, the input has more cases than this."
            )
        sentences.append(self.cut_sentence(params.get("max_trace_length")))
        return " ".join(filter(None, sentences))

    def cut_sentence(self, declared: int | None) -> str:
        """Returns that a declared length is likely to have cut cases, and the mend, or nothing.

        It is where more than 2 % of the released cases have exactly that length: the longest cases
        of a process that nothing cuts are few.

        Args:
            declared: The declared `max_trace_length`; None: there is none.
        """
        share = self.longest_share or 0.0
        if declared is None or self.max_events != declared or share <= _CUT:
            return ""
        return (
            f"{share:.0%} of the released cases have {declared:,} events, the declared "
            "max_trace_length: longer ones were probably cut there, and what they did later is not "
            "in it. Raise max_trace_length, or leave it out where the method needs none."
        )

    def to_json(self) -> dict[str, Any]:
        """Returns the numbers; of lengths and of figures only where there are some."""
        numbers = {f.name: getattr(self, f.name) for f in fields(self)}
        return {n: v for n, v in numbers.items() if v is not None or n not in _OF_SOME}


_OF_SOME = ("max_events", "longest_share", "n_figures")


def _counted(number: int | None, one: str, many: str = "") -> str:
    if number is None:
        return ""
    return f"{number:,} {one if number == 1 else many or one + 's'}"
