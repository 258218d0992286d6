"""How far clocks are apart, by messages of our own: what is certain, and what is not."""

from __future__ import annotations

import pytest

from tracecloak.schemas.errors import RetryLater
from tracecloak.transforms.services.kafka_clock import StampedProbe, check_clocks

S = 1_000_000


@pytest.mark.parametrize(
    "probes",
    [
        [(100, 100, 100)],
        [(102, 100, 103)],
        [(100, 102, 100)],
        [(100, 130, 160)],  # the answer took a minute: the stamp may be right
        [(100, 101, 101), (100, 99, 100)],
    ],
)
def test_clocks_that_may_agree_are_believed(probes: list[tuple[int, int, int]]) -> None:
    check_clocks("the service", [StampedProbe(*(S * n for n in probe)) for probe in probes])


@pytest.mark.parametrize(
    ("probes", "said"),
    [
        ([(190, 100, 191)], "is 90.0 s ahead of that of the service"),
        ([(100, 190, 101)], "is 89.0 s behind that of the service"),
        ([(100, 102.1, 100)], "is 2.1 s behind"),
        # Each is near this machine's, and one is not near the other.
        ([(100, 101.5, 100), (100, 98.5, 100)], "is 1.5 s ahead of and 1.5 s behind"),
        ([(100, 100, 100), (100, 97, 100)], "is 3.0 s ahead of"),
    ],
)
def test_clocks_that_are_certain_to_differ_are_waited_for(
    probes: list[tuple[float, float, float]], said: str
) -> None:
    made = [StampedProbe(*(int(S * n) for n in probe)) for probe in probes]
    with pytest.raises(RetryLater, match=said):
        check_clocks("the service", made)
