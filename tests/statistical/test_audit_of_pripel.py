"""The epsilon that PRIPEL was published with does not hold for its release, and an audit shows it.

Keys are fixed, so a failure repeats. A bound exceeds the truth with probability at most 1e-9.
"""

from __future__ import annotations

import itertools

import pytest

from tests.support.keys import release_key
from tracecloak.anonymizers.contract.method import Anonymizer
from tracecloak.anonymizers.logs.presets import PripelRigorous
from tracecloak.anonymizers.pripel.method import Pripel
from tracecloak.examination.attack.neighbours import made_up_pairs
from tracecloak.examination.attack.report import PairFinding
from tracecloak.examination.attack.run import audit_pair
from tracecloak.examination.attack.views import before_publication

CONFIDENCE = 1 - 1e-9


def audit(method: Anonymizer, example: dict[str, object], told: str, n: int) -> PairFinding:
    params = method.Params(**example)
    (pair,) = [pair for pair in made_up_pairs(method, params) if told in pair.what]
    delta = method.guarantee(params).delta or 0.0
    keys = map(release_key, itertools.count())
    return audit_pair(pair, before_publication(method), params, delta, n, CONFIDENCE, keys=keys)


@pytest.mark.slow
def test_no_finite_epsilon_holds_for_pripel() -> None:
    """Stamps come out in the range of the log's own starts: of a case after all others they tell.

    The bound grows with the number of releases.
    """
    example = {"epsilon": "1", "max_prefix_length": 5, "p_harmful": 3}
    told = "that starts when nobody else does"
    few, many = (audit(Pripel(), example, told, n).epsilon for n in (120, 220))
    assert 0 < few < many
    assert many > 1


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_the_audit_does_not_refute_the_rigorous_form_on_the_same_logs() -> None:
    """The control: the same pair of logs, of which a release tells no more than its epsilon.

    As many releases as refute the published form: fewer could prove no epsilon above 1 of anything.
    """
    example = {
        "epsilon": "1", "delta": "0", "max_prefix_length": 5, "p_harmful": 3,
        "vocabulary": ("A", "B", "C", "D", "E", "F"), "first_date": "1970-01-01",
        "last_date": "1970-12-31", "n_duration_bins": 4, "variants": "sparse-histogram",
    }  # fmt: skip
    found = audit(PripelRigorous(), example, "that starts when nobody else does", 220)
    assert found.epsilon <= 1 < found.largest_provable
