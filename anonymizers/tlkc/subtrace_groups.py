"""Texts put into groups of k cases, each cut to a common subsequence, so that little is lost.

To lose the fewest characters is a clustering problem for which a greedy way is taken. Every text
begins as a group of its own. Two groups are merged to the longest common subsequence of their
texts, those first for which the fewest characters of all cases are lost for each case that was
short of k, until each group has k cases. A group that has them is cut further only where that loses
less than the cases that are short of k have. Then, as long as anything is won: group texts grow
where their members have more in common; each text moves to the longest group text that it has, as
long as the group it leaves keeps k cases; a group that is still short takes the nearest texts that
others can do without; and two groups swap a text each.

Time grows with the square of the number of texts up to BLOCK of them, a second or two. More are
grouped by blocks of neighbours, and what a block leaves over is grouped again.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import reduce
from itertools import accumulate

import numpy as np

from tracecloak.schemas.arrays.merging import sum_groups

# How many texts are compared at once with how many targets.
BLOCK = 1024
_MANY = 16  # blocks; if there were more, each is a quarter as large, which is four times faster
_MAX_ROUNDS = 10  # of improvements, each of which keeps more than the one before
_NONE = -1
_REFUSED = -(1 << 60)


@dataclass
class Group:
    """Texts that are cut to one text.

    Attributes:
        text: What is left of each of them.
        weight: Cases that they stand for.
        members: Their numbers.
    """

    text: str
    weight: int
    members: list[int] = field(default_factory=list)


def grouped(groups: list[Group], frequent: list[str], k: int) -> list[Group]:
    """Merges groups until each has k cases; those for which there is no way are left out.

    Args:
        groups: One for each text.
        frequent: Texts that k other cases have already: a text that one of them is a subsequence
            of can be cut to it.
        k: How many cases a group needs.
    """
    done: list[Group] = []
    n_before = len(groups) + 1
    while len(groups) < n_before:
        n_before = len(groups)
        heaviest = sorted(done, key=lambda group: -group.weight)
        targets = list(dict.fromkeys([*frequent, *(group.text for group in heaviest)]))[:BLOCK]
        rest: list[Group] = []
        for block in _blocks(groups):
            finished, left = _Improving(block, targets, k).result()
            done += finished
            rest += left
        groups = rest
    return done


def _blocks(groups: list[Group]) -> list[list[Group]]:
    size = BLOCK if len(groups) <= _MANY * BLOCK else -(-BLOCK // 4)
    n_blocks = -(-len(groups) // size)
    ends = [len(groups) * (i + 1) // n_blocks for i in range(n_blocks)]
    return [groups[first:last] for first, last in zip([0, *ends], ends, strict=False)]


def _common(texts: list[str], others: list[str]) -> np.ndarray:
    """int32[n, m], lengths of the longest common subsequences."""
    if not texts or not others:
        return np.zeros((len(texts), len(others)), np.int32)
    # Loaded on use: the catalogue only describes.
    from rapidfuzz.distance import LCSseq
    from rapidfuzz.process import cdist

    return cdist(texts, others, scorer=LCSseq.similarity, dtype=np.int32)


def _in_common(text: str, other: str) -> str:
    """A longest common subsequence."""
    from rapidfuzz.distance import LCSseq

    steps = LCSseq.opcodes(text, other)
    return "".join(text[step.src_start : step.src_end] for step in steps if step.tag == "equal")


def _lengths(texts: list[str]) -> np.ndarray:
    return np.array([len(text) for text in texts], np.int64)


class _Merging:
    """Merges the texts of a block, the two clusters first that lose least.

    A cluster has a slot. One with k cases is closed: it takes others in and does not look for any.
    A target is closed too, and is never cut. In the end `texts` are those of the slots, and `home`
    the slot of each unit, or the number of slots and a target's number.
    """

    def __init__(self, units: list[Group], targets: list[str], k: int) -> None:
        self._targets, self._k = targets, k
        self.texts = [unit.text for unit in units]
        self.home = np.arange(len(units))
        self._length = _lengths(self.texts)
        self._weight = np.array([unit.weight for unit in units], np.int64)
        self._is_used = np.ones(len(units), bool)
        self._target_length = _lengths(targets)
        self._similarity = _common(self.texts, self.texts)
        self._longest = self._longest_targets(self.texts)
        self._run()

    def _longest_targets(self, texts: list[str]) -> np.ndarray:
        """int64[n], the longest target that each text has as a subsequence."""
        if not self._targets:
            return np.full(len(texts), _NONE)
        fits = np.where(
            _common(texts, self._targets) == self._target_length, self._target_length, _NONE
        )
        longest = np.argmax(fits, axis=1)
        return np.where(fits[np.arange(len(texts)), longest] >= 0, longest, _NONE)

    def _losses(self, slot: int) -> np.ndarray:
        """float64[n], what merging a cluster with each other loses for each case short of k.

        Infinite where they must not be merged.
        """
        weight, length, common = self._weight, self._length, self._similarity[slot]
        slot_loss = weight[slot] * (length[slot] - common)
        others = weight * (length - common)
        is_closed = weight >= self._k
        refused = ~self._is_used | (common == 0)
        # The cases of an open cluster can go altogether rather than cut a closed one further.
        if is_closed[slot]:
            short = weight
            refused |= is_closed | ((slot_loss > 0) & (slot_loss + others > weight * length))
        else:
            short = weight[slot] + np.where(is_closed, 0, weight)
            refused |= is_closed & (others > 0) & (slot_loss + others > weight[slot] * length[slot])
        refused[slot] = True
        return np.where(refused, np.inf, (slot_loss + others) / short)

    def _cheapest(self, slot: int) -> tuple[float, int]:
        """The smallest loss of an open cluster, and with which slot or target."""
        losses = self._losses(slot)
        other = int(np.argmin(losses))
        target = int(self._longest[slot])
        if target != _NONE:
            to_target = float(self._length[slot] - self._target_length[target])
            if to_target <= losses[other]:
                return to_target, len(losses) + target
        return float(losses[other]), other

    def _run(self) -> None:
        n = len(self.texts)
        loss, partner = np.full(n, np.inf), np.zeros(n, np.int64)
        is_open = self._weight < self._k
        for slot in np.flatnonzero(is_open).tolist():
            loss[slot], partner[slot] = self._cheapest(slot)
        # Where a partner is gone, the loss is a lower bound until its turn comes.
        is_stale = np.zeros(n, bool)
        while np.isfinite(loss).any():
            slot = int(np.argmin(loss))
            if is_stale[slot]:
                loss[slot], partner[slot] = self._cheapest(slot)
                is_stale[slot] = False
                continue
            other = int(partner[slot])
            self.home[self.home == slot] = other
            self._is_used[slot] = is_open[slot] = False
            loss[slot] = np.inf
            if other < n:
                self._unite(other, slot)
                is_open[other] = self._weight[other] < self._k
                loss[other] = np.inf
                new = self._losses(other)
                closer = is_open & (new < loss)
                closer[other] = False
                loss[closer], partner[closer], is_stale[closer] = new[closer], other, False
                gone = (partner == slot) | (partner == other)
                is_stale |= is_open & gone & ~closer
                if is_open[other]:
                    loss[other], partner[other] = self._cheapest(other)
                    is_stale[other] = False
            else:
                is_stale |= is_open & (partner == slot)

    def _unite(self, slot: int, other: int) -> None:
        """Makes one cluster of two, in the first slot."""
        text = _in_common(self.texts[slot], self.texts[other])
        self.texts[slot] = text
        self._length[slot] = len(text)
        self._weight[slot] += self._weight[other]
        common = _common([text], self.texts)[0]
        self._similarity[slot], self._similarity[:, slot] = common, common
        self._longest[slot] = self._longest_targets([text])[0]


class _Improving:
    """Moves the texts of a block to other groups as long as anything is won."""

    def __init__(self, units: list[Group], targets: list[str], k: int) -> None:
        merged = _Merging(units, targets, k)
        self._units, self._k, self._n_groups = units, k, len(units)
        self._unit_texts = [unit.text for unit in units]
        self._unit_weight = np.array([unit.weight for unit in units], np.int64)
        self._texts = [*merged.texts, *targets]
        self._home = merged.home

    def result(self) -> tuple[list[Group], list[Group]]:
        """Returns the groups that have k cases, and those that are short of it."""
        n_kept = -1
        for _ in range(_MAX_ROUNDS):
            self._grow()
            self._move()
            self._rescue()
            self._swap()
            if (now := int((self._unit_weight * self._kept_lengths()).sum())) <= n_kept:
                break
            n_kept = now
        done: list[Group] = []
        left: list[Group] = []
        is_closed = self._is_closed()
        for home in np.unique(self._home).tolist():
            mine = [self._units[i] for i in np.flatnonzero(self._home == home)]
            members = [member for unit in mine for member in unit.members]
            group = Group(self._texts[home], sum(unit.weight for unit in mine), members)
            (done if is_closed[home] else left).append(group)
        return done, left

    def _weights(self) -> np.ndarray:
        """int64[n_homes], cases of each group."""
        return sum_groups(self._home, self._unit_weight, len(self._texts))

    def _is_closed(self) -> np.ndarray:
        closed = self._weights() >= self._k
        closed[self._n_groups :] = True
        return closed

    def _kept_lengths(self) -> np.ndarray:
        """int64[n_units], characters that are left of each text: none where its group is short."""
        return np.where(self._is_closed(), _lengths(self._texts), 0)[self._home]

    def _can_leave(self) -> np.ndarray:
        """bool[n_units], whether the group of a text can do without it."""
        weights = self._weights()
        spare = weights[self._home] - self._unit_weight >= self._k
        return spare | (self._home >= self._n_groups) | (weights[self._home] < self._k)

    def _grow(self) -> None:
        """Lets the texts of groups grow to what their members have in common."""
        for home in np.unique(self._home[self._home < self._n_groups]).tolist():
            members = np.flatnonzero(self._home == home)
            longer = reduce(_in_common, [self._unit_texts[i] for i in members])
            if len(longer) > len(self._texts[home]):
                self._texts[home] = longer

    def _move(self) -> None:
        """Moves each text to the longest group text that it has."""
        homes = np.flatnonzero(self._is_closed())
        if not len(homes):
            return
        lengths = _lengths(self._texts)[homes]
        fits = np.where(
            _common(self._unit_texts, [self._texts[home] for home in homes]) == lengths, lengths, 0
        )
        best = np.argmax(fits, axis=1)
        gain = fits[np.arange(len(best)), best] - self._kept_lengths()
        for unit in np.argsort(-gain, kind="stable"):
            if gain[unit] <= 0:
                return
            if self._can_leave()[unit]:
                self._home[unit] = homes[best[unit]]

    def _rescue(self) -> None:
        """Fills groups that are short up with texts that others can do without, if it pays."""
        for home in np.flatnonzero((self._weights() > 0) & ~self._is_closed()).tolist():
            if self._weights()[home] >= self._k:
                continue  # it was filled up for another one
            before, kept_lengths = self._home.copy(), self._kept_lengths()
            text = self._texts[home]
            while (weight := self._weights()[home]) < self._k:
                common = _common([text], self._unit_texts)[0]
                loss = weight * (len(text) - common) + self._unit_weight * (kept_lengths - common)
                refused = ~self._can_leave() | (self._home == home) | (common == 0)
                if refused.all():
                    break
                unit = int(np.argmin(np.where(refused, np.inf, loss / self._unit_weight)))
                text = _in_common(text, self._unit_texts[unit])
                self._home[unit] = home
            moved = self._home != before
            won = weight * len(text) - int((self._unit_weight * kept_lengths)[moved].sum())
            if weight >= self._k and won > 0:
                self._texts[home] = text
            else:
                self._home = before

    def _swap(self) -> None:
        """Lets two groups exchange a text each, the pairs that win most first."""
        closed = self._is_closed()
        units = np.flatnonzero(closed[self._home] & (self._home < self._n_groups))
        others = self._without_each(units)
        unit_texts = [self._unit_texts[unit] for unit in units]
        # The length that each unit's group has without it, and with the unit of the column in its
        # place.
        length = _common(others, unit_texts).astype(np.int64)
        weight, home = self._unit_weight[units], self._home[units]
        new_weight = (self._weights()[home] - weight)[:, None] + weight[None, :]
        is_allowed = (new_weight >= self._k) & (length > 0)
        mass = np.where(is_allowed, new_weight * length, _REFUSED)
        now = self._weights()[home] * _lengths(self._texts)[home]
        won = mass + mass.T - now[:, None] - now[None, :]
        won[home[:, None] <= home[None, :]] = 0
        changed: set[int] = set()
        first, second = np.nonzero(won > 0)
        for i in np.argsort(-won[first, second], kind="stable"):
            a, b = int(first[i]), int(second[i])
            pair = {int(home[a]), int(home[b])}
            if pair & changed:
                continue
            changed |= pair
            self._texts[home[a]] = _in_common(others[a], unit_texts[b])
            self._texts[home[b]] = _in_common(others[b], unit_texts[a])
            self._home[units[a]], self._home[units[b]] = home[b], home[a]

    def _without_each(self, units: np.ndarray) -> list[str]:
        """What the group of each unit would have in common without it."""
        text_without = [""] * len(self._unit_texts)
        for home in np.unique(self._home[units]).tolist():
            members = np.flatnonzero(self._home == home)
            texts = [self._unit_texts[i] for i in members]
            before = list(accumulate(texts, _in_common))
            after = list(accumulate(texts[::-1], _in_common))[::-1]
            for i, member in enumerate(members):
                parts = [*before[max(i - 1, 0) : i], *after[i + 1 : i + 2]]
                text_without[member] = reduce(_in_common, parts) if parts else ""
        return [text_without[unit] for unit in units]
