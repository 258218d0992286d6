"""What a check is, and what it finds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from tests.support.checks.trial import Trial

Outcome = Literal["held", "did not hold", "not applicable"]


class NotHeld(Exception):  # noqa: N818 - a finding, not a fault
    """What a check tried went through; the text says what was seen."""


class NotApplicable(Exception):  # noqa: N818 - likewise
    """A check says nothing about the configuration; the text says why."""


@dataclass(frozen=True)
class Check:
    """One way round a budget.

    Attributes:
        name: In a word or two.
        tried: What is tried, a sentence.
        run: Tries it, and returns what was seen, a sentence; raises NotHeld or NotApplicable.
    """

    name: str
    tried: str
    run: Callable[[Trial], str]


@dataclass(frozen=True)
class Finding:
    """What a check found.

    Attributes:
        name: The check's.
        tried: What was tried.
        outcome: Whether the configuration withstood it.
        seen: What was seen, or why it does not apply.
    """

    name: str
    tried: str
    outcome: Outcome
    seen: str


@dataclass(frozen=True)
class ChecksReport:
    """All findings about one configuration.

    Attributes:
        findings: One a check.
    """

    findings: tuple[Finding, ...]

    def named(self, outcome: Outcome) -> list[str]:
        """Returns the names of the checks with an outcome."""
        return [finding.name for finding in self.findings if finding.outcome == outcome]

    @property
    def is_refuted(self) -> bool:
        """Whether a check does not hold."""
        return bool(self.named("did not hold"))

    @property
    def verdict(self) -> str:
        """The outcome in a sentence."""
        failed, held = self.named("did not hold"), self.named("held")
        if failed:
            n_applied = len(failed) + len(held)
            return f"of {n_applied} checks these did not hold: {', '.join(failed)}"
        left = len(self.named("not applicable"))
        return f"all {len(held)} checks that apply held; not applicable: {left}"


def expect(is_so: bool, otherwise: str) -> None:
    """Makes sure that something is as it must be.

    Raises:
        NotHeld: It is not; with the text.
    """
    if not is_so:
        raise NotHeld(otherwise)
