"""Errors of service and waiting times, by hand."""

from __future__ import annotations

import numpy as np
import pytest

from tests.schemas.statistics.test_service_times import HOUR, intervals
from tests.support.logs import trace_batch
from tracecloak.examination.measure.utility import mean_error, service_errors

LOG = intervals([[("A", 0, HOUR), ("B", 3 * HOUR, 4 * HOUR)], [("A", 0, 3 * HOUR)]])


def test_by_hand():
    """A takes 2 hours on average, B 1 and waits 2. Released: A 3 hours, B none, and waits 3."""
    released = intervals([[("A", 0, 3 * HOUR), ("B", 6 * HOUR, 6 * HOUR)]])
    errors = service_errors(LOG, released)
    assert errors["service_time_error"] == pytest.approx((2 * 1 + 1 * 1) / 5)
    assert errors["waiting_time_error"] == pytest.approx(1 / 2)


def test_without_starts_there_is_no_measure():
    assert service_errors(LOG, trace_batch([("c", "A", 0)], "ABC")) == {}
    assert service_errors(trace_batch([("c", "A", 0)], "ABC"), LOG) == {}
    nothing = np.array([1.0]), np.array([0.0])
    assert mean_error(nothing, nothing) is None
