"""Groups of activities by a list and by a rule, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from tracecloak.anonymizers.registry import method_named
from tracecloak.anonymizers.rigorous.names import Grouping
from tracecloak.schemas.events.events import ActivityVocabulary

NAMES = ("01_HOOFD_010", "01_HOOFD_020", "02_DRZ_010", "done")
METHODS = pytest.mark.parametrize("name", ["joint-variants", "private-log"])


def params_of(name: str, **given: Any) -> Any:
    return method_named(name).Params(**{"epsilon": "1", "vocabulary": NAMES, **given})


@pytest.mark.parametrize(
    ("depth", "groups"),
    [
        (1, ["01", "01", "02", "done"]),
        (2, ["01_HOOFD", "01_HOOFD", "02_DRZ", "done"]),
        (3, list(NAMES)),
    ],
)
def test_a_rule_takes_the_first_parts_of_a_name(depth: int, groups: list[str]) -> None:
    rule = Grouping(None, "_", depth)
    assert [rule.group(name) for name in NAMES] == groups
    made = rule.of(ActivityVocabulary.public(NAMES))
    labels = made.names.names.to_pylist()
    assert [labels[code] for code in made.codes] == [*groups[:3], "__other__", "done"]


def test_a_rule_never_gives_the_name_of_an_activity_of_another_group() -> None:
    names = ("a", "a_b", "a_b_c", "b", "_", "_a", "a__b")
    for depth in (1, 2, 3):
        rule = Grouping(None, "_", depth)
        groups = {rule.group(name) for name in names}
        assert all(group and rule.group(group) == group for group in groups)


@METHODS
def test_a_plan_says_which_activities_are_groups_by_themselves(name: str) -> None:
    method = method_named(name)
    groups = {"01_HOOFD_010": "H", "01_HOOFD_020": "H", "gone": "H"}
    [sentence] = [
        text for text in method.explain(params_of(name, groups=groups)) if text[:6] == "groups"
    ]
    assert "3 of 4 declared activities" in sentence and "'02_DRZ_010', 'done'" in sentence
    assert "'gone', which no declared activity is" in sentence
    assert not any(text.startswith("groups") for text in method.explain(params_of(name)))
    bought = params_of(
        name, vocabulary=None, buy_vocabulary=True, group_separator="_", group_depth=2
    )
    assert any("bought name" in text for text in method.explain(bought))
