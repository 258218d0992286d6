"""The rules between activities that every case keeps which a public process model allows.

The same rules as those of a log (`anonymizers.queries.order_rules`), of all sequences that a model
allows instead: which activity never comes before another, which is always followed or preceded by
another, and which a case may begin with. They follow from the model's states by reachability, so
loops and sequences of any length are covered, and no sequence is listed.
"""

from __future__ import annotations

import numpy as np

from tracecloak.anonymizers.queries.order_rules import NamedRules
from tracecloak.schemas.errors import UsageError
from tracecloak.schemas.models.petri_net import PetriNet, states_of


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
