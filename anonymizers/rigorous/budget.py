"""How the parts of a release pay together: one Gaussian budget, or Laplace noise at shares.

A part says what it needs: something that is private by itself at an epsilon (`Choice`, `Pure`), or
sums that get noise (`Sums`). With a delta all sums are blocks of one Gaussian mechanism
(`anonymizers.accounting.joint`). Without one, or where that errs less, their noise is Laplace and
their epsilons add up. Which of the two it is follows from public numbers.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache

from tracecloak.anonymizers.accounting.calibration import gaussian_threshold, laplace_scale
from tracecloak.anonymizers.accounting.composition import Block, Spend, Way, decimal_text
from tracecloak.anonymizers.accounting.joint import (
    Unseen,
    block_scale,
    delta_for_unseen,
    joint_deviation,
)
from tracecloak.anonymizers.accounting.sensitivity import Sensitivity
from tracecloak.anonymizers.contract.sentences import sentence
from tracecloak.anonymizers.noise.sums import SumNoise
from tracecloak.anonymizers.rigorous.params import drawable
from tracecloak.schemas.errors import UsageError

UNITS = 1024
"""Lattice steps of one occurrence under Gaussian noise, which makes up for its being discrete."""

# Laplace shares are decimals of so many places, so that every part's epsilon is a finite decimal.
_PLACES = 10**6
# `block_scale` rounds up to 8 digits, by at most 1e-7; twice that covers what is rounded.
_SCALE_ROUNDING = Fraction(2, 10**7)
_ROOT_OF_2 = math.sqrt(2)


@dataclass(frozen=True)
class Choice:
    """A choice that is epsilon-DP by itself.

    Attributes:
        name: As in the plan and the manifest.
        share: Its share of the epsilon of the release.
    """

    name: str
    share: Fraction


@dataclass(frozen=True)
class Pure:
    """Something that is epsilon-DP by itself, whatever noise the rest has.

    Attributes:
        name: As in the plan and the manifest.
        share: Its share of the epsilon that choices leave, relative to the shares of all others.
        changed: What one unit changes, if these are whole counts with Laplace noise; else None.
        largest: What one unit changes at most, where that is known when the release runs.
    """

    name: str
    share: Fraction
    changed: Sensitivity | None = None
    largest: Sensitivity | None = None


@dataclass(frozen=True)
class Sums:
    """Sums over units that get noise.

    Attributes:
        name: As in the plan and the manifest.
        share: Of what is left beside choices, relative to the shares of all others.
        changed: What one unit changes, in lattice steps; see `units`.
        units: Lattice steps of an occurrence. None for whole counts, whose lattice is that of the
            noise.
        is_any_clip: Whether `changed` is that of a clip of one occurrence and stands for every
            clip that may be bought, with noise in proportion.
        largest: What one unit changes at the largest clip, in lattice steps of the coarsest lattice
            that may be taken then; None where the clip is public.
        is_open: Whether the cells are those that occur, and what passes a threshold is released.
        open_share: Of several vectors that divide this share among them, at least so much is of one
            with such cells.
        is_l2: Whether the change is bounded in L2 only, so that the noise is Gaussian.
    """

    name: str
    share: Fraction
    changed: Sensitivity
    units: int | None = None
    is_any_clip: bool = False
    largest: Sensitivity | None = None
    is_open: bool = False
    open_share: Fraction = Fraction(1)
    is_l2: bool = False


@dataclass(frozen=True)
class Instead:
    """A part of what a release does in place of all sums, if a choice says so.

    It gets the epsilon that the choices leave, and a delta of its own, which costs the sums little
    or nothing (`anonymizers.accounting.joint` has the proof, for which all choices come before all
    blocks: see `Budget.check_order`). It is not allowed where anything else gets noise, too.

    Attributes:
        name: As in the plan and the manifest.
        way: What it is a part of, with others of that way.
        share: Its share of that epsilon; the shares of one way add up to 1.
        of: The names of the sums.
        largest: See `Pure`.
        delta_share: Its delta, for cells that nobody declared, as a share of that of the release.
    """

    name: str
    way: str
    share: Fraction
    of: tuple[str, ...]
    largest: Sensitivity | None = None
    delta_share: Fraction = Fraction(0)


Need = Choice | Pure | Sums | Instead
_Done = Choice | Pure | Sums


@dataclass(frozen=True)
class Allowance:
    """What a need may spend.

    Attributes:
        epsilon: Of its own; 0 for sums that share the Gaussian budget, and for what may not be
            done.
        delta: Of the threshold; 0 where there is none.
        share: f, of the Gaussian budget; 0 without one.
        deviation: s of the Gaussian budget; None without one.
    """

    epsilon: Fraction
    delta: Fraction = Fraction(0)
    share: Fraction = Fraction(0)
    deviation: Fraction | None = None

    def noise(self, changed: Sensitivity, units: int | None = None) -> SumNoise:
        """Returns the noise of sums.

        Args:
            changed: What one unit changes, in lattice steps.
            units: Lattice steps of an occurrence; None for whole counts, of which `noise.units`
                then says the lattice.

        Raises:
            UsageError: Noise so wide cannot be drawn.
        """
        if self.deviation is None:
            scale = drawable(laplace_scale(self.epsilon, changed))
            return SumNoise(scale, units or 1, True, Fraction(changed.l1))
        if units is None:
            units, changed = UNITS, changed.times(UNITS)
        scale = drawable(block_scale(self.deviation, self.share, changed.l2))
        return SumNoise(scale, units, False, changed.l2)

    def threshold(self, changed: Sensitivity, units: int | None = None) -> int:
        """Returns the noisy sum, in lattice steps of `noise`, from which on a cell is released.

        A cell that one unit alone has reaches it with a probability that, over all that it can
        have, adds up to `delta`.

        Args:
            changed: What one unit changes of the sums, in lattice steps.
            units: As of `noise`; Laplace noise is for whole counts.
        """
        if self.deviation is None:
            from tracecloak.anonymizers.accounting.calibration import stability_threshold

            return stability_threshold(self.epsilon, self.delta, int(changed.l1))
        noise = self.noise(changed, units)
        alone = int(changed.linf) * (noise.units if units is None else 1)
        return gaussian_threshold(noise.scale, alone, self.delta / changed.l0)

    def part(self, share: Fraction) -> Allowance:
        """Returns what one of several vectors may spend that divide a share among them.

        Args:
            share: Of this one.
        """
        return replace(self, share=self.share * share)

    @property
    def relative_width(self) -> float:
        """The deviation of Gaussian noise at sensitivity 1."""
        assert self.deviation is not None
        return float(self.deviation) / math.sqrt(self.share)

    @property
    def text(self) -> str:
        """What it is, for sentences on what is spent."""
        if self.deviation is None:
            delta = f", delta {decimal_text(self.delta)}" if self.delta else ""
            return f"spends epsilon {decimal_text(self.epsilon)}{delta}"
        passing = f", delta {decimal_text(self.delta)} of it for the threshold" * bool(self.delta)
        return f"has a share of {float(self.share):.3g} of the Gaussian budget{passing}"


Allowances = Mapping[str, Allowance]


@dataclass(frozen=True)
class Budget:
    """What all needs of a release may spend.

    Attributes:
        epsilon: Of all together.
        delta: Of all together.
        needs: The needs, in the order of the parts.
        means: What each may spend, by name.
    """

    epsilon: Fraction
    delta: Fraction
    needs: tuple[Need, ...]
    means: Allowances

    @property
    def deviation(self) -> Fraction | None:
        """The deviation of the Gaussian budget at sensitivity 1; None without such a budget."""
        return next((m.deviation for m in self.means.values() if m.deviation is not None), None)

    @property
    def explanation(self) -> str:
        """What the Gaussian budget is, in a sentence; empty without one."""
        if self.deviation is None:
            return ""
        given = {"deviation": float(self.deviation), "epsilon": self.epsilon, "delta": self.delta}
        return sentence("rigorous", "joint", None, **given)

    def check_order(self, needs: Iterable[Need]) -> None:
        """Checks that all choices come first if something may be done in place of the blocks.

        The proof that to choose it costs no delta needs that.

        Args:
            needs: In the order in which they are met.

        Raises:
            AssertionError: A choice comes after a block.
        """
        is_choice = [isinstance(need, Choice) for need in needs]
        if self._ways() and is_choice != sorted(is_choice, reverse=True):
            raise AssertionError("a choice comes after a block that it decides on")

    def spends(self) -> tuple[Spend, ...]:
        """Returns the parts, which add up to epsilon and delta.

        Raises:
            UsageError: Noise as wide as some part may need cannot be drawn.
        """
        for need in self.needs:
            may_be = self.means[need.name]
            if isinstance(need, Instead) and not may_be.epsilon:
                continue
            if not isinstance(need, Choice) and need.largest is not None:
                units = need.units if isinstance(need, Sums) else None
                may_be.noise(need.largest, units)  # raises if it cannot be drawn
        if self.deviation is not None:
            return (self._joint(),)
        spends = [self._alone(need) for need in self.needs if not isinstance(need, Instead)]
        left = self.delta - sum((spend.delta for spend in spends), Fraction(0))
        if left:  # no part needs it, so the last one is charged with it
            last = spends[-1]
            kind = "approximate" if last.mechanism == "pure" else last.mechanism
            spends[-1] = replace(last, delta=last.delta + left, mechanism=kind)
        return tuple(spends)

    def _alone(self, need: _Done) -> Spend:
        allowance = self.means[need.name]
        if isinstance(need, Choice) or need.changed is None:
            return Spend(need.name, "pure", allowance.epsilon, allowance.delta)
        units = need.units if isinstance(need, Sums) else None
        noise = allowance.noise(need.changed, units)
        assert noise.sensitivity is not None
        return Spend(
            *(need.name, "discrete_laplace", allowance.epsilon, allowance.delta),
            *(noise.scale, noise.sensitivity),
        )

    def _joint(self) -> Spend:
        blocks, choices = [], []
        for need in self.needs:
            allowance = self.means[need.name]
            if isinstance(need, Instead):
                continue
            if not isinstance(need, Sums):
                choices.append((need.name, allowance.epsilon))
                continue
            noise = allowance.noise(need.changed, need.units)
            assert noise.sensitivity is not None
            rounded = noise.sensitivity * (1 + _SCALE_ROUNDING * need.is_any_clip)
            blocks.append(
                Block(
                    need.name, noise.scale, rounded, noise.units, need.is_any_clip, allowance.delta
                )
            )
        if len(blocks) == 1 and not choices and not blocks[0].delta:
            [block] = blocks
            return Spend(
                *(block.what, "discrete_gaussian", self.epsilon, self.delta),
                *(block.scale, block.sensitivity),
            )
        return Spend(
            *("all", "joint", self.epsilon, self.delta),
            blocks=tuple(blocks),
            choices=tuple(choices),
            instead=self._ways(),
        )

    def _ways(self) -> tuple[Way, ...]:
        parts: dict[str, list[Instead]] = {}
        for need in self.needs:
            if isinstance(need, Instead) and self.means[need.name].epsilon:
                parts.setdefault(need.way, []).append(need)
        return tuple(
            Way(
                way,
                tuple((need.name, self.means[need.name].epsilon) for need in needs),
                sum((self.means[need.name].delta for need in needs), Fraction(0)),
            )
            for way, needs in parts.items()
        )


def scaled(needs: Iterable[Need], share: Fraction) -> tuple[Need, ...]:
    """Returns the needs of one part, of shares that add up to 1, with shares of that part's."""
    return tuple(
        need if isinstance(need, Choice | Instead) else replace(need, share=need.share * share)
        for need in needs
    )


@lru_cache(maxsize=1024)
def budget_of(epsilon: Fraction, delta: Fraction, needs: tuple[Need, ...]) -> Budget:
    """Divides a budget among needs.

    Choices have their shares of epsilon, and what is left is divided by the shares of all others.
    Sums with Gaussian noise divide the whole budget that is left beside what is pure. With a delta
    the noise is Laplace where the weighted mean of the logarithms of the errors is then smaller:
    the deviations of sums, and the thresholds of open ones.

    Args:
        epsilon: Of the release.
        delta: Of the release.
        needs: Of distinct names; choices have less than 1 together.

    Raises:
        UsageError: Cells that nobody declared need a delta, or noise so wide cannot be drawn.
    """
    done = tuple(need for need in needs if not isinstance(need, Instead))
    left = 1 - sum((need.share for need in done if isinstance(need, Choice)), Fraction(0))
    spent = {need.name for need in done if not isinstance(need, Choice)}
    instead = [need for need in needs if isinstance(need, Instead)]
    is_joint = delta > 0 and _is_joint_only(done)
    may_be = [need for need in instead if is_joint and spent <= set(need.of)]
    passing = {need.name: delta * need.delta_share for need in may_be}
    divided = _divided(epsilon, delta, done, max(passing.values(), default=Fraction(0)))
    means = {**divided.means, **{need.name: Allowance(Fraction(0)) for need in instead}}
    for need in may_be:
        means[need.name] = Allowance(epsilon * left * need.share, passing[need.name])
    return replace(divided, needs=needs, means=means)


def _divided(
    epsilon: Fraction, delta: Fraction, needs: tuple[_Done, ...], instead: Fraction
) -> Budget:
    sums = [need for need in needs if isinstance(need, Sums)]
    if any(need.is_open for need in sums) and delta == 0:
        raise UsageError("delta must be above 0 for cells that nobody declared")
    linear = _linear(epsilon, delta, needs)
    if not sums or delta == 0:
        return linear
    try:
        joint = _joint(epsilon, delta, needs, instead)
    except UsageError:  # epsilon is too small for Gaussian noise, maybe not for Laplace noise
        if _is_joint_only(needs):
            raise
        return linear
    return joint if _is_joint_only(needs) or _error(joint) <= _error(linear) else linear


def _is_joint_only(needs: Sequence[_Done]) -> bool:
    """Whether there are sums that Laplace noise cannot be for."""
    return any(isinstance(need, Sums) and (need.is_any_clip or need.is_l2) for need in needs)


def _linear(epsilon: Fraction, delta: Fraction, needs: Sequence[_Done]) -> Budget:
    shares = _shares_of_epsilon(needs)
    is_open = [need for need in needs if isinstance(need, Sums) and need.is_open]
    deltas = _decimal({need.name: need.share for need in is_open}, Fraction(1))
    means = {
        need.name: Allowance(epsilon * shares[need.name], delta * deltas.get(need.name, 0))
        for need in needs
    }
    return Budget(epsilon, delta, tuple(needs), means)


def _shares_of_epsilon(needs: Sequence[_Done]) -> dict[str, Fraction]:
    shares = {need.name: need.share for need in needs if isinstance(need, Choice)}
    left = 1 - sum(shares.values(), Fraction(0))
    weights = {need.name: need.share for need in needs if not isinstance(need, Choice)}
    return {**shares, **_decimal(weights, left)}


def _decimal(weights: Mapping[str, Fraction], whole: Fraction) -> dict[str, Fraction]:
    """Divides a whole by weights into decimals; the largest part also gets what rounding left."""
    if not weights:
        return {}
    total = sum(weights.values(), Fraction(0))
    shares = {
        name: Fraction(max(int(weight / total * whole * _PLACES), 1), _PLACES)
        for name, weight in weights.items()
    }
    most = max(weights, key=lambda name: weights[name])
    shares[most] += whole - sum(shares.values(), Fraction(0))
    return shares


def _joint(epsilon: Fraction, delta: Fraction, needs: Sequence[_Done], instead: Fraction) -> Budget:
    sums = [need for need in needs if isinstance(need, Sums)]
    whole = sum((need.share for need in sums), Fraction(0))
    shares = {need.name: need.share / whole for need in sums}
    epsilon_shares = _shares_of_epsilon(needs)
    pure = {n.name: epsilon * epsilon_shares[n.name] for n in needs if not isinstance(n, Sums)}
    choices = tuple(pure.values())
    is_open = {need.name: shares[need.name] * need.open_share for need in sums if need.is_open}
    passing = delta_for_unseen(epsilon, delta, choices, tuple(is_open.values()))
    deltas = dict(zip(is_open, passing, strict=True))
    unseen = tuple(Unseen(share, deltas[name]) for name, share in is_open.items())
    deviation = joint_deviation(epsilon, delta, choices, unseen, instead)
    means = {name: Allowance(own) for name, own in pure.items()}
    for name, share in shares.items():
        passes = deltas.get(name, Fraction(0))
        means[name] = Allowance(Fraction(0), passes, share, deviation)
    return Budget(epsilon, delta, tuple(needs), means)


def _error(budget: Budget) -> float:
    """What sums err by, as the logarithm of a weighted mean; infinite where it cannot be drawn."""
    total = weight = 0.0
    for need in budget.needs:
        if not isinstance(need, Sums):
            continue
        allowance = budget.means[need.name]
        try:
            noise = allowance.noise(need.changed, need.units)
        except UsageError:
            return math.inf
        error = noise.width / noise.units * (_ROOT_OF_2 if noise.is_laplace else 1)
        if need.is_open:
            error = allowance.threshold(need.changed, need.units) / noise.units
        total += float(need.share) * math.log(error)
        weight += float(need.share)
    return total / weight


def least_cases(allowance: Allowance, changed: Sensitivity) -> int:
    """Returns from how many cases on what nobody declared is about to be released."""
    return math.ceil(allowance.threshold(changed) / allowance.noise(changed).units)
