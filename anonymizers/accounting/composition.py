"""Composition of losses, and the scale of Gaussian noise."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields
from decimal import Context, Decimal, Inexact
from fractions import Fraction
from typing import Any, Literal, Self

import numpy as np

from tracecloak.anonymizers.accounting.calibration import check_epsilon
from tracecloak.anonymizers.accounting.intervals import Interval
from tracecloak.schemas.errors import UsageError

# --- The scale of discrete Gaussian noise that keeps an epsilon and a delta by itself. ------------
# Where a release divides one Gaussian budget among its parts, see `joint`.
#
# The delta of Gaussian noise, continuous and on the integers, is known in enclosures.


# Discrete Gaussian noise is accounted for as rounded continuous noise, whose variance is smaller by
# the square of this deviation. `anonymizers.accounting.composition` proves that this costs at
# most 2 d eta. The second number is a thousand times that, rounded up, since a thousandth of a unit
# loses 2 d eta just as all of it does (`anonymizers.accounting.composed`).
ROUNDING_DEVIATION = 2
COORDINATES_LOSS = Fraction(1, 10**21)
# Beyond this exponent, e^epsilon is no float.
_LARGEST_EXPONENT = 700


def gaussian_delta(deviation: Fraction, epsilon: Fraction | Interval) -> Interval:
    """Encloses the smallest delta of continuous Gaussian noise at L2 sensitivity 1.

    Phi(1 / (2 s) - epsilon s) - e^epsilon Phi(-1 / (2 s) - epsilon s) (Balle and Wang 2018,
    Theorem 8), in any number of dimensions.

    Args:
        deviation: s, the standard deviation, above 0.
        epsilon: Any; below 0 where something else loses privacy, too.
    """
    if not isinstance(epsilon, Interval):
        epsilon = Interval.of(epsilon)
    s = Interval.of(deviation)
    half, shift = Interval.of(1 / (2 * deviation)), epsilon * s
    return (half - shift).normal_cdf() - epsilon.exp() * (-half - shift).normal_cdf()


def rough_gaussian_delta(deviation: float, epsilon: float) -> float:
    """`gaussian_delta` in floats, to begin a search with."""
    half, shift = 1 / (2 * deviation), epsilon * deviation
    below, above = ((shift - half) / math.sqrt(2), (shift + half) / math.sqrt(2))
    if epsilon < _LARGEST_EXPONENT:
        return (math.erfc(below) - math.exp(epsilon) * math.erfc(above)) / 2
    # e^epsilon leaves the floats. As epsilon - above^2 = -below^2, Mills' ratio is left, and as
    # above is at least the root of epsilon, its asymptotic series is precise to 1e-10.
    square = 2 * above**2
    mills = (1 - 1 / square + 3 / square**2 - 15 / square**3) / (above * math.sqrt(math.pi))
    return (math.erfc(below) - math.exp(-(below**2)) * mills) / 2


def continuous_deviation(sigma: Fraction) -> Fraction:
    """Returns the s of the proof in `gaussian_scale` for a sigma above 2, rounded down."""
    variance = sigma**2 - ROUNDING_DEVIATION**2
    unit = 10**12
    return Fraction(math.isqrt(math.floor(variance * unit**2)), unit)


def deviation_at(squared_mu: Fraction) -> Fraction:
    """Returns the deviation of a Gaussian of sensitivity 1 that has this mu, rounded down."""
    unit = 10**12
    return Fraction(math.isqrt(math.floor(unit**2 / squared_mu)), unit)


# --- The series by which sums over steps are measured with little noise. --------------------------
# The matrix of all sums, lower triangular and Toeplitz, has a square root of the same kind. If
# noise is added to its product with the counts, and the result is multiplied by it once more, all
# sums come out with noise that grows with the logarithm of their number (Fichtenberger,
# Henzinger, Upadhyay 2023).


def square_root(horizon: int, length: int | None) -> np.ndarray:
    """Returns float64[horizon], the power series of sqrt((1 - z^W) / (1 - z)).

    Args:
        horizon: Terms, at least 1.
        length: W, or None: sqrt(1 / (1 - z)).
    """
    if length == 1:
        return np.eye(1, horizon)[0]
    k = np.arange(1, horizon)
    totals = np.concatenate([[1.0], np.cumprod((2 * k - 1) / (2 * k))])
    if length is None or length >= horizon:
        return totals
    n = (horizon - 1) // length
    k = np.arange(1, n + 1)
    terms = np.concatenate([[1.0], np.cumprod((2 * k - 3) / (2 * k))])  # of sqrt(1 - z)
    series = np.zeros(horizon)
    for i, term in enumerate(terms.tolist()):
        series[i * length :] += term * totals[: horizon - i * length]
    return series


# --- What the parts of a release cost together. ---------------------------------------------------
# The claim of a release is the exact sum of its parts' epsilons and deltas (basic composition;
# Dwork, Kenthapadi, McSherry, Mironov, Naor 2006). The smaller epsilon that they keep together is
# in `composed`.


Mechanism = Literal["discrete_laplace", "discrete_gaussian", "joint", "pure", "approximate"]


@dataclass(frozen=True)
class _Exact:
    """A record of exact numbers, which are text in JSON: see `_TEXTS`."""

    def to_json(self) -> dict[str, Any]:
        """Returns the fields as JSON values, every number exactly.

        Epsilon and delta are decimals, scale and sensitivity fractions such as "4231/1000".

        Raises:
            UsageError: Epsilon or delta is no finite decimal.
        """
        values = {f.name: getattr(self, f.name) for f in fields(self)}
        return {n: _TEXTS[n][0](value) if n in _TEXTS else value for n, value in values.items()}

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> Self:
        """Returns the record that `to_json` wrote.

        Raises:
            UsageError: It is impossible: noise of its scale has a larger epsilon, for example.
            KeyError, TypeError, ValueError: The body is no such record.
        """
        names = [f.name for f in fields(cls) if f.name in body or f.name not in _OF_JOINT]
        return cls(**{n: _TEXTS[n][1](body[n]) if n in _TEXTS else body[n] for n in names})


@dataclass(frozen=True)
class Block(_Exact):
    """One vector of sums of a joint Gaussian mechanism.

    Attributes:
        what: What is counted.
        scale: (numerator, denominator) of the parameter of its discrete Gaussian noise.
        sensitivity: By how much one unit changes it in L2, in the units of the scale.
        units: How many units of the scale one occurrence has.
        is_per_clip: Whether scale and sensitivity are for a clip of one occurrence; they grow with
            the clip that is chosen.
        delta: The delta of a threshold over cells that nobody declared; 0 without one.
    """

    what: str
    scale: tuple[int, int]
    sensitivity: Fraction
    units: int = 1
    is_per_clip: bool = False
    delta: Fraction = Fraction(0)

    def __post_init__(self) -> None:
        if min(self.scale) < 1 or self.sensitivity <= 0:
            raise UsageError(f"scale and sensitivity of {self.what} must be positive")
        if Fraction(*self.scale) <= ROUNDING_DEVIATION:
            raise UsageError(f"the scale of {self.what} must be above {ROUNDING_DEVIATION}")

    @property
    def squared_loss(self) -> Fraction:
        """The square of sensitivity by deviation of the continuous noise, rounded up."""
        return (self.sensitivity / continuous_deviation(Fraction(*self.scale))) ** 2


@dataclass(frozen=True)
class Way(_Exact):
    """Something that may be done in place of all blocks of a joint mechanism.

    Attributes:
        what: What it is.
        parts: What it consists of, by name and epsilon: each pure but for `delta`.
        delta: Of a threshold over cells that nobody declared; 0 without one.
    """

    what: str
    parts: tuple[tuple[str, Fraction], ...]
    delta: Fraction = Fraction(0)

    @property
    def epsilon(self) -> Fraction:
        """The epsilon of all parts together."""
        return sum((epsilon for _, epsilon in self.parts), Fraction(0))


@dataclass(frozen=True)
class Spend(_Exact):
    """What one part of a release costs.

    Attributes:
        what: The part: "edges", "clip", "vocabulary", ….
        mechanism: `discrete_laplace`: discrete Laplace noise of `scale` on counts that one unit
            changes by at most `sensitivity` in total (L1), with a threshold or the like of `delta`
            if that is not 0. `discrete_gaussian`: discrete Gaussian noise of parameter `scale` on
            counts that one unit changes by at most `sensitivity` in L2. `joint`: all `blocks` and
            `choices` together (`anonymizers.accounting.joint`). `pure`: anything that is
            epsilon-DP. `approximate`: anything that is (epsilon, delta)-DP.
        epsilon: Of this part.
        delta: Of this part.
        scale: (numerator, denominator) of the noise; for noise on counts only.
        sensitivity: In the units of the scale; for noise on counts only.
        blocks: Of `joint` only: what has Gaussian noise.
        choices: Of `joint` only: what is pure, by name and epsilon.
        instead: Of `joint` only: what may be done in place of all blocks. Each is, with the
            choices, within the epsilon of the part, and its delta within the delta.
    """

    what: str
    mechanism: Mechanism
    epsilon: Fraction
    delta: Fraction
    scale: tuple[int, int] | None = None
    sensitivity: int | Fraction | None = None
    blocks: tuple[Block, ...] = ()
    choices: tuple[tuple[str, Fraction], ...] = ()
    instead: tuple[Way, ...] = ()

    def __post_init__(self) -> None:
        check_epsilon(self.epsilon)
        if isinstance(self.delta, float) or not 0 <= self.delta < 1:
            raise UsageError(f"delta of {self.what} must be exact and in [0, 1), got {self.delta}")
        if self.mechanism == "pure" and self.delta != 0:
            raise UsageError(f"delta of {self.what} must be 0, since it is pure, got {self.delta}")
        if (self.mechanism == "joint") != bool(self.blocks):
            raise UsageError(f"{self.what}: blocks are for a joint mechanism, which needs them")
        if (self.choices or self.instead) and self.mechanism != "joint":
            raise UsageError(f"{self.what}: choices are for a joint mechanism only")
        left = self.epsilon - sum((epsilon for _, epsilon in self.choices), Fraction(0))
        for way in self.instead:
            if way.epsilon > left:
                raise UsageError(f"{way.what} has more epsilon than the choices leave")
        if self.mechanism not in ("discrete_laplace", "discrete_gaussian"):
            if self.scale is not None or self.sensitivity is not None:
                raise UsageError(f"{self.what}: scale and sensitivity are for noise on counts only")
            return
        if self.scale is None or min(self.scale) < 1:
            raise UsageError(f"scale of {self.what} must be positive, got {self.scale}")
        if self.sensitivity is None or self.sensitivity <= 0:
            raise UsageError(f"sensitivity of {self.what} must be positive: {self.sensitivity}")
        if self.mechanism == "discrete_laplace":
            if Fraction(self.sensitivity).denominator != 1:
                raise UsageError(f"L1 sensitivity of {self.what} must be whole: {self.sensitivity}")
            if self.sensitivity / Fraction(*self.scale) > self.epsilon:
                raise UsageError(f"the scale of {self.what} is too small for its epsilon")

    def to_json(self) -> dict[str, Any]:
        """Returns them; only a joint mechanism has blocks and choices."""
        is_joint = self.mechanism == "joint"
        return {k: v for k, v in super().to_json().items() if is_joint or k not in _OF_JOINT}


_OF_JOINT = ("blocks", "choices", "instead")


def _named_to_json(parts: Iterable[tuple[str, Fraction]]) -> list[dict[str, str]]:
    return [{"what": what, "epsilon": decimal_text(epsilon)} for what, epsilon in parts]


def _named_of_json(parts: Iterable[Mapping[str, str]]) -> tuple[tuple[str, Fraction], ...]:
    return tuple((part["what"], Fraction(part["epsilon"])) for part in parts)


# How fields are written in JSON, and how they are read, which others are as they are.
_TEXTS: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "epsilon": (lambda number: decimal_text(number), Fraction),
    "delta": (lambda number: decimal_text(number), Fraction),
    "scale": (lambda x: x and str(Fraction(*x)), lambda x: x and Fraction(x).as_integer_ratio()),
    "sensitivity": (lambda x: x and str(Fraction(x)), lambda x: x and Fraction(x)),
    "parts": (_named_to_json, _named_of_json),
    "choices": (_named_to_json, _named_of_json),
    "blocks": (
        lambda those: [x.to_json() for x in those],
        lambda x: tuple(map(Block.from_json, x)),
    ),
    "instead": (lambda those: [x.to_json() for x in those], lambda x: tuple(map(Way.from_json, x))),
}


def noise_of(part: Mapping[str, Any]) -> list[tuple[str, str, float]]:
    """Returns how wide the noise of a part is on each of its counts, from `Spend.to_json`.

    Returns:
        (what is counted; the standard deviation in occurrences, of a joint mechanism alone; how
        many times what one unit changes the standard deviation is, to two digits). Nothing where
        no scale is listed.
    """
    # The variance of Laplace noise is twice the square of its scale.
    factor = math.sqrt(2) if part["mechanism"] == "discrete_laplace" else 1.0
    noise = []
    for block in part.get("blocks", [part] if part.get("scale") else []):
        scale, clip = Fraction(block["scale"]), " times the clip" * block.get("is_per_clip", False)
        times = float(f"{factor * (scale / Fraction(block['sensitivity'])):.2g}")
        noise.append((block["what"], f"{float(scale / block.get('units', 1)):.3g}{clip}", times))
    return noise


def joint_sentence(part: Mapping[str, Any]) -> str:
    """Returns what a joint mechanism is made of, from `Spend.to_json`: the noise of each block."""
    blocks = [f"{what} {deviation}" for what, deviation, _ in noise_of(part)]
    sentence = f"The noise has these standard deviations: {', '.join(blocks)}."
    if part["choices"]:
        chosen = [f"{choice['what']} {choice['epsilon']}" for choice in part["choices"]]
        sentence += f" This was chosen, or is private by itself, with epsilon: {', '.join(chosen)}."
    if part["instead"]:
        ways = []
        for way in part["instead"]:
            epsilon = sum((Fraction(spend["epsilon"]) for spend in way["parts"]), Fraction(0))
            passing = f" and delta {way['delta']}" * (way["delta"] != "0")
            ways.append(f"{way['what']}, with epsilon {decimal_text(epsilon)}{passing}")
        sentence += (
            f" If one of these was chosen, it stands in place of the others: {'; '.join(ways)}."
        )
    return sentence


def total(spends: Iterable[Spend]) -> tuple[Fraction, Fraction]:
    """Returns the sums of epsilons and deltas; they hold whatever the order and adaptivity."""
    epsilon = delta = Fraction(0)
    for spend in spends:
        epsilon += spend.epsilon
        delta += spend.delta
    return epsilon, delta


def exact_text(value: Fraction | None) -> str | None:
    """Returns the exact decimal of a number, see `decimal_text`; None: there is none."""
    return None if value is None else decimal_text(value)


def decimal_text(value: Fraction | int) -> str:
    """Returns the exact decimal of a number, without an exponent: "0.000001", "2".

    Raises:
        UsageError: It has no finite one, such as 1/3.
    """
    number, divisor = Decimal(value.numerator), value.denominator
    # A finite one has no more decimal places than the divisor has bits.
    enough = Context(prec=len(number.as_tuple().digits) + divisor.bit_length(), traps=[Inexact])
    try:
        return f"{enough.divide(number, Decimal(divisor)):f}"
    except Inexact:
        message = f"{value} is no finite decimal: use shares and budgets that are decimals"
        raise UsageError(message) from None
