"""Epsilon and delta in numbers that somebody can judge: what an attacker's guess can rise to.

If two inputs are told apart with epsilon and delta, a release is as informative as one that tells
the answer with probability delta and else keeps to epsilon (Kairouz, Oh, Viswanath 2015). That is
not that e^epsilon is passed with probability delta: noise that is Gaussian passes it some twenty
times as often, by little. With t > 0, e^(epsilon + t) is passed with probability at most
delta / (1 - e^-t), as what is beyond it counts for that share of itself in delta. Under
epsilon alone a guess of probability p rises to at most p e^epsilon / (p e^epsilon + 1 - p). Whoever
is added or removed with (epsilon, delta) is replaced with (2 epsilon, (1 + e^epsilon) delta)
(Dwork and Roth 2014). Every bound is rounded up.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import ROUND_CEILING, Context, Decimal
from fractions import Fraction

import jinja2

from tracecloak.anonymizers.accounting.calibration import guessing_advantage_of
from tracecloak.anonymizers.accounting.composition import decimal_text, noise_of
from tracecloak.anonymizers.accounting.intervals import Interval
from tracecloak.schemas.published.guarantee import Guarantee, at_most
from tracecloak.schemas.published.manifest import ReleaseManifest

PRIORS = (Fraction(1, 100), Fraction(1, 10), Fraction(1, 2))
"""Guesses of which pages say to what they can rise."""

_LARGEST_SHOWN_FACTOR = 10**9
# From this epsilon on a guess of one half may become nearly certain. Beyond the other one the bound
# on it is the same in every digit that is shown, and e^epsilon soon too large to compute.
_PROMISES_LITTLE, _ALL_THE_SAME = 4, 50


def exact(value: float) -> Fraction:
    """The number that a float is the shortest text of."""
    return Fraction(repr(float(value)))


def _ceiling(value: Decimal, n_digits: int) -> str:
    rounded = Context(prec=n_digits, rounding=ROUND_CEILING).plus(value)
    # Without the zeros that the precision adds to short numbers.
    return f"{rounded.normalize():,f}"


def _advantage(value: float) -> str:
    return f"{Decimal(value).quantize(Decimal('0.0001'), rounding=ROUND_CEILING):f}"


def posterior(prior: Fraction, epsilon: Fraction) -> str:
    """Largest probability of a guess after the release, in percent, rounded up to a tenth."""
    decay = (-Interval.of(epsilon)).exp()
    bound = Interval.of(1) / (Interval.of((1 - prior) / prior) * decay + 1)
    percent = (bound.high * 100).quantize(Decimal("0.1"), rounding=ROUND_CEILING)
    return "100 %" if percent >= 100 else f"{percent:f} %"


_GUESSES = {
    ("case", "add_remove"): "that one case is in the input",
    ("case", "replace_one"): "which of two courses one case took",
    ("individual", "add_remove"): "that a person is in the input",
    ("individual", "replace_one"): "which of two courses a person's cases took",
    ("event", "add_remove"): "that one event is in the input",
    ("event", "replace_one"): "which of two events one event was",
}


def caution(guarantee: Guarantee) -> str:
    """Returns how little a large epsilon promises, in a sentence; empty below an epsilon of 4.

    Of the epsilon that holds for the whole release and its unit, and the question that its
    adjacency is about; a guess of 50 % is the one that can rise the furthest.
    """
    epsilon = guarantee.epsilon
    if epsilon is None or guarantee.kind == "syntactic" or not epsilon >= _PROMISES_LITTLE:
        return ""
    most = posterior(Fraction(1, 2), exact(min(epsilon, _ALL_THE_SAME)))
    if most == "100 %":  # as it is rounded up
        most = "more than 99.9 %"
    guess = _GUESSES[guarantee.unit, guarantee.adjacency]
    return f"Epsilon {at_most(epsilon)} promises little: a guess of 50 % {guess} may become {most}."


@dataclass(frozen=True)
class Bound:
    """How far a release answers one question of an attacker."""

    epsilon: str
    delta: str
    advantage: str
    posteriors: tuple[str, ...]

    @classmethod
    def of(cls, epsilon: Fraction, delta: str, advantage: float) -> Bound:
        """Returns the bound with its guesses."""
        return cls(
            decimal_text(epsilon),
            delta,
            _advantage(advantage),
            tuple(posterior(prior, epsilon) for prior in PRIORS),
        )


@dataclass(frozen=True)
class Promise:
    """Epsilon and delta in numbers, and what follows for an attacker's two questions.

    Attributes:
        epsilon: As promised.
        delta: As promised.
        odds: n of "at most 1 in n"; empty for delta 0.
        twice_delta: Bound on the probability that twice the factor is passed, twice delta.
        factor: e^epsilon, rounded up.
        presence: Whether a unit is in the input at all, or None: no bound follows.
        content: Which of two a unit is, or None: no bound follows.
    """

    epsilon: str
    delta: str
    odds: str
    twice_delta: str
    factor: str
    presence: Bound | None
    content: Bound | None

    @property
    def asked(self) -> Bound | None:
        """The bound on the question that the promise answers."""
        return self.presence or self.content

    @classmethod
    def of(cls, guarantee: Guarantee) -> Promise | None:
        """Returns None where no finite epsilon holds."""
        if guarantee.epsilon is None or guarantee.kind == "syntactic":
            return None
        epsilon, delta = exact(guarantee.epsilon), exact(guarantee.delta or 0.0)
        gained = guessing_advantage_of(epsilon, delta, guarantee.adjacency)
        grown = Interval.of(epsilon).exp()
        presence: Bound | None = None
        content: Bound | None
        if guarantee.adjacency == "replace_one":
            content = Bound.of(epsilon, decimal_text(delta), gained.any_prior)
        else:
            presence = Bound.of(epsilon, decimal_text(delta), gained.membership)
            # Replacing is removing and adding.
            of_replacing = ((grown + 1) * Interval.of(delta)).high
            shown = f"at most {_ceiling(of_replacing, 3)}" if delta else "0"
            is_bounded = of_replacing < 1
            content = Bound.of(2 * epsilon, shown, gained.any_prior) if is_bounded else None
        is_shown = grown.high <= _LARGEST_SHOWN_FACTOR
        return cls(
            epsilon=decimal_text(epsilon),
            delta=decimal_text(delta),
            odds=f"{1 // delta:,}" if delta else "",
            twice_delta=decimal_text(2 * delta),
            factor=_ceiling(grown.high, 4) if is_shown else f"e^{decimal_text(epsilon)}",
            presence=presence,
            content=content,
        )


_WORDS = jinja2.Environment(
    loader=jinja2.PackageLoader("tracecloak.transforms.publish"),
    undefined=jinja2.StrictUndefined,
    autoescape=False,  # the pages that print these texts escape them
    trim_blocks=True,
    lstrip_blocks=True,
)


def in_words(manifest: ReleaseManifest) -> dict[str, str]:
    """Returns what a release promises as an officer says it, by the names in `words.txt.j2`."""
    text = _WORDS.get_template("words.txt.j2").render(
        manifest=manifest,
        guarantee=manifest.guarantee,
        promise=Promise.of(manifest.guarantee),
        times=[times for part in manifest.spends for _, _, times in noise_of(part)],
    )
    return dict(line.split(": ", 1) for line in text.splitlines())
