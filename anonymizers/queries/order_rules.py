"""Rules between activities, and which continuations of prefixes violate how many of them.

The rules of Fahrenkrog-Petersen et al. ("Semantics-aware Mechanisms for Control-flow Anonymization
in Process Mining", 2023, section 3.2): one activity always, sometimes or never follows, or
precedes, another, at any distance. The followers of an activity are those after its first event and
its predecessors those before its last one. A prefix violates

* both "never follows" and "never precedes" for each pair that it has and that never occurs;
* "always precedes" for each activity that should have come before one it has;
* "always follows", once it has ended, for each activity that should have come after the first
  event of one it has: before the end it may still come.

An ended prefix is held against all of them. A prefix of one event is harmless if and only if some
case begins with it, as in the authors' code; the paper has no rule about beginnings.

What "precedes" means where an activity has several events, the paper does not say. In its authors'
code the other comes before the last of them, and since the last event of a prefix need not be the
last one of its case, cases themselves begin with prefixes that violate such rules. Here it may also
be said to come before the first of them (`at_first`): then every beginning of every case keeps all
rules of its log.

The rules between activities that every case keeps which a public process model allows.

The same rules as those of a log (`anonymizers.queries.order_rules`), of all sequences that a model
allows instead: which activity never comes before another, which is always followed or preceded by
another, and which a case may begin with. They follow from the model's states by reachability, so
loops and sequences of any length are covered, and no sequence is listed.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pydantic

from tracecloak.schemas.errors import UsageError
from tracecloak.schemas.events.events import ActivityVocabulary
from tracecloak.schemas.models import PetriNet, states_of
from tracecloak.schemas.statistics.relations import ActivityRelations


@dataclass(frozen=True, eq=False)
class OrderRules:
    """What is always or never so; the rest is sometimes so.

    Attributes:
        never: bool[n, n], at [a, b]: no a comes before a b.
        always_follows: bool[n, n], at [a, b]: after the first a there is a b.
        always_precedes: bool[n, n], at [a, b]: before the first b, or the last, there is an a.
        begins: bool[n], whether cases may begin with an activity.
        at_first: Which b of several that is: the first, or as in the authors' code the last.
    """

    never: np.ndarray
    always_follows: np.ndarray
    always_precedes: np.ndarray
    begins: np.ndarray
    at_first: bool = True

    @classmethod
    def from_relations(
        cls, relations: ActivityRelations, vocabulary: ActivityVocabulary, at_first: bool = True
    ) -> OrderRules:
        """Returns the rules that all cases keep.

        An activity that no case has never follows nor precedes any.
        """
        table = relations.table(vocabulary)
        pairs, cases = table[:-2], table[-2]
        preceded = relations.table(vocabulary, at_first)[:-2]
        return cls(
            pairs == 0,
            (pairs > 0) & (pairs == cases[:, np.newaxis]),
            (preceded > 0) & (preceded == cases),
            table[-1] > 0,
            at_first,
        )

    def violations(self, prefixes: np.ndarray) -> np.ndarray:
        """Counts the rules that each continuation of each prefix violates.

        Args:
            prefixes: int32[n_prefixes, depth], activities.

        Returns:
            int64[n_prefixes, n + 1]: by the activity that is appended, the end last.
        """
        n_prefixes, depth = prefixes.shape
        n = len(self.begins)
        if depth == 0:
            at_start = np.zeros((n_prefixes, n + 1), np.int64)
            at_start[:, :n] = ~self.begins
            return at_start
        # Counts of at most 2 n² are exact in float32, which multiplies many times faster.
        never, follows, precedes = (
            rule.astype(np.float32)
            for rule in (self.never, self.always_follows, self.always_precedes)
        )
        firsts, lasts = _places(prefixes, n)
        preceded = firsts if self.at_first else lasts
        has = lasts >= 0
        lacks = (~has).astype(np.float32)
        # An activity that a prefix lacks comes after all that it has when it is appended.
        more = 2 * (has.astype(np.float32) @ never)
        lacking = lacks @ precedes
        more += lacks * lacking if self.at_first else lacking
        within = np.zeros(n_prefixes, np.float32)
        at_end = ((has.astype(np.float32) @ follows) * lacks).sum(axis=1)
        for code in range(n):
            rows = np.flatnonzero(has[:, code])
            if not len(rows):
                continue
            # Which activities come before the last event of this one, and which do not come before
            # the event that they should precede.
            first = firsts[rows]
            before = first < lasts[rows, code, np.newaxis]
            not_before = (first >= preceded[rows, code, np.newaxis]).astype(np.float32)
            unordered = (has[rows] & ~before).astype(np.float32)
            missing = not_before @ precedes[:, code]
            within[rows] += 2 * (before.astype(np.float32) @ never[:, code]) + missing
            at_end[rows] += unordered @ follows[:, code]
            # If it is appended once more, it is the last of its kind and comes after every event of
            # the prefix.
            more[rows, code] = 2 * (unordered @ never[:, code])
            if not self.at_first:
                more[rows, code] += lacking[rows, code] - missing
        return np.column_stack([within[:, np.newaxis] + more, within + at_end]).astype(np.int64)


def _places(prefixes: np.ndarray, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns int16[n_prefixes, n], the first and the last place of each activity.

    Of an activity that a prefix lacks the first place is after all others, and the last is -1.
    """
    n_prefixes, depth = prefixes.shape
    rows = np.arange(n_prefixes)
    firsts = np.full((n_prefixes, n), depth, np.int16)
    lasts = np.full((n_prefixes, n), -1, np.int16)
    for place in range(depth):
        lasts[rows, prefixes[:, place]] = place
        firsts[rows, prefixes[:, depth - 1 - place]] = depth - 1 - place
    return firsts, lasts


class NamedRules(pydantic.BaseModel):
    """Rules by the names of the activities, as those of a public process model.

    What is in no pair is sometimes so. An activity that the model lacks, such as __other__, never
    follows nor precedes any, and no case begins with it.
    """

    model_config = pydantic.ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    activities: tuple[str, ...]
    """The activities of the model."""
    begins: tuple[str, ...]
    """Those that a case may begin with."""
    never: tuple[tuple[str, str], ...] = ()
    """(a, b): no a comes before a b."""
    always_follows: tuple[tuple[str, str], ...] = ()
    """(a, b): after the first a there is a b."""
    always_precedes: tuple[tuple[str, str], ...] = ()
    """(a, b): before the first b there is an a."""

    @pydantic.model_validator(mode="after")
    def _names_are_known(self) -> NamedRules:
        known = set(self.activities)
        pairs = (*self.never, *self.always_follows, *self.always_precedes)
        for name in (*self.begins, *(name for pair in pairs for name in pair)):
            if name not in known:
                raise ValueError(f"rules name {name!r}, which is none of their activities")
        return self

    def over(self, vocabulary: ActivityVocabulary) -> OrderRules:
        """Returns the rules by the codes of a vocabulary; those on names that it lacks are left."""
        code = {name: i for i, name in enumerate(vocabulary.names.to_pylist())}
        n = len(code)
        is_known = np.zeros(n, bool)
        is_known[[code[name] for name in self.activities if name in code]] = True
        begins = np.zeros(n, bool)
        begins[[code[name] for name in self.begins if name in code]] = True

        def matrix(pairs: tuple[tuple[str, str], ...]) -> np.ndarray:
            relation = np.zeros((n, n), bool)
            for a, b in pairs:
                if a in code and b in code:
                    relation[code[a], code[b]] = True
            return relation

        never = matrix(self.never) | ~is_known[:, np.newaxis] | ~is_known
        return OrderRules(never, matrix(self.always_follows), matrix(self.always_precedes), begins)


def rules_of_model(net: PetriNet) -> NamedRules:
    """Returns the rules of a net by the names of its activities.

    Activities that are on no way from the start to the end are none of its activities.

    Raises:
        UsageError: The net has too many states, no way to its end, or no activity on such a way.
    """
    states = states_of(net)
    n = len(states.labels)
    if not n:
        raise UsageError("the process model has no activity on any way from its start to its end")
    start = np.zeros(states.n_states, bool)
    start[0] = True
    is_any = np.ones(len(states.codes), bool)
    occurs, exceptions_after, exceptions_before = (np.zeros((n, n), bool) for _ in range(3))
    # The states that can be reached without an a, and the states from which an end can be reached
    # without a b.
    without = [states.after(start, states.codes != a) for a in range(n)]
    ends_without = [states.before(states.is_final, states.codes != b) for b in range(n)]
    for a in range(n):
        steps = states.codes == a
        sources, targets = states.sources[steps], states.targets[steps]
        done = np.zeros(states.n_states, bool)
        done[targets] = True
        later = states.codes[states.after(done, is_any)[states.sources]]
        occurs[a, later[later >= 0]] = True
        for b in range(n):
            # The first a with no b after it, and the first a with no b before it.
            exceptions_after[a, b] = (without[a][sources] & ends_without[b][targets]).any()
            exceptions_before[b, a] = without[b][sources].any()
    firsts = states.codes[states.after(start, states.codes < 0)[states.sources]]

    def named(pairs: np.ndarray) -> tuple[tuple[str, str], ...]:
        return tuple((states.labels[a], states.labels[b]) for a, b in np.argwhere(pairs).tolist())

    return NamedRules(
        activities=states.labels,
        begins=tuple(states.labels[code] for code in np.unique(firsts[firsts >= 0]).tolist()),
        never=named(~occurs),
        always_follows=named(~exceptions_after),
        always_precedes=named(~exceptions_before),
    )
