"""What the parts of a release cost together.

The claim of a release is the exact sum of its parts' epsilons and deltas (basic composition; Dwork,
Kenthapadi, McSherry, Mironov, Naor 2006). The smaller epsilon that they keep together is in
`composed`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal

from tracecloak.anonymizers.accounting.calibration import check_epsilon
from tracecloak.anonymizers.accounting.gaussian_scale import (
    ROUNDING_DEVIATION,
    continuous_deviation,
)
from tracecloak.schemas.errors import UsageError

Mechanism = Literal["discrete_laplace", "discrete_gaussian", "joint", "pure", "approximate"]


@dataclass(frozen=True)
class Block:
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

    def to_json(self) -> dict[str, Any]:
        """Returns the fields as JSON values, every number exactly, as text."""
        return {
            "what": self.what,
            "scale": str(Fraction(*self.scale)),
            "sensitivity": str(self.sensitivity),
            "units": self.units,
            "is_per_clip": self.is_per_clip,
            "delta": decimal_text(self.delta),
        }


@dataclass(frozen=True)
class Way:
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

    def to_json(self) -> dict[str, Any]:
        """Returns the fields as JSON values, every number exactly, as text."""
        parts = [{"what": what, "epsilon": decimal_text(epsilon)} for what, epsilon in self.parts]
        return {"what": self.what, "parts": parts, "delta": decimal_text(self.delta)}


@dataclass(frozen=True)
class Spend:
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
        """Returns the fields as JSON values, every number exactly.

        Epsilon and delta are decimals, scale and sensitivity fractions such as "4231/1000", all as
        text. Only a joint mechanism has blocks and choices.

        Raises:
            UsageError: Epsilon or delta is no finite decimal.
        """
        values = {
            "what": self.what,
            "mechanism": self.mechanism,
            "epsilon": decimal_text(self.epsilon),
            "delta": decimal_text(self.delta),
            "scale": None if self.scale is None else str(Fraction(*self.scale)),
            "sensitivity": None if self.sensitivity is None else str(Fraction(self.sensitivity)),
        }
        if self.mechanism != "joint":
            return values
        return {
            **values,
            "blocks": [block.to_json() for block in self.blocks],
            "choices": [
                {"what": what, "epsilon": decimal_text(epsilon)} for what, epsilon in self.choices
            ],
            "instead": [way.to_json() for way in self.instead],
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


def decimal_text(value: Fraction | int) -> str:
    """Returns the exact decimal of a number, without an exponent: "0.000001", "2".

    Raises:
        UsageError: It has no finite one, such as 1/3.
    """
    value = Fraction(value)
    rest, twos, fives = value.denominator, 0, 0
    while rest % 2 == 0:
        rest, twos = rest // 2, twos + 1
    while rest % 5 == 0:
        rest, fives = rest // 5, fives + 1
    if rest != 1:
        raise UsageError(f"{value} is no finite decimal: use shares and budgets that are decimals")
    places = max(twos, fives)
    digits = str(abs(value.numerator) * (10**places // value.denominator)).zfill(places + 1)
    sign = "-" if value < 0 else ""
    return sign + (f"{digits[:-places]}.{digits[-places:]}" if places else digits)
