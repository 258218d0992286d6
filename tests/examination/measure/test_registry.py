"""The registry: what every measure says of itself, and that no value leaves its range."""

from __future__ import annotations

import math

import pytest

from tracecloak.examination.measure.registry import MEASURES, checked, legend, legend_lines


def test_every_measure_says_what_it_is() -> None:
    for measure in MEASURES.values():
        assert measure.title and measure.formula and measure.source and measure.needs, measure
        assert measure.range[0] < measure.range[1], measure
        assert measure.direction and measure.extent.startswith("from "), measure
        assert measure.name == measure.name.lower() and " " not in measure.name, measure
        json = measure.to_json()
        assert json["range"][1] is None or math.isfinite(json["range"][1]), measure


def test_what_is_called_a_share_goes_to_one() -> None:
    """Catches an F-score of 1.26 and a fitness of 1.70."""
    for name, measure in MEASURES.items():
        if any(word in name for word in ("f_score", "fitness", "precision", "share", "kept")):
            assert measure.range == [0, 1], name
    assert len({measure.title for measure in MEASURES.values()}) == len(MEASURES)


def test_a_value_out_of_range_is_refused_and_rounding_is_not() -> None:
    assert checked({"drift": 0.25, "seconds": None}) == {"drift": 0.25, "seconds": None}
    assert checked({"variant_emd": -1e-12, "drift": 1 + 1e-12}) == {"variant_emd": 0, "drift": 1}
    for name, value in (("mined_f_score", 1.26), ("tree_fitness", 1.7), ("drift", math.nan)):
        with pytest.raises(ArithmeticError, match=name):
            checked({name: value})
    with pytest.raises(KeyError):
        checked({"f1": 0.5})


def test_the_best_is_nearest_to_what_it_should_be() -> None:
    less, more, near = (MEASURES[n] for n in ("variant_emd", "edge_recall", "drift"))
    assert less.distance(0.1, None) < less.distance(0.2, None)
    assert more.distance(0.2, None) < more.distance(0.1, None)
    assert near.distance(0.3, 0.34) < near.distance(0.04, 0.34)


def test_a_legend_has_the_asked_ones_in_the_order_of_the_registry() -> None:
    asked = ["drift", "variant_emd", "no measure"]
    assert list(legend(asked)) == ["variant_emd", "drift"]
    lines = list(legend_lines(asked))
    assert len(lines) == 2 and "from 0 to 1; less is better" in lines[0]
    assert "the nearer to the log's own the better" in lines[1]
