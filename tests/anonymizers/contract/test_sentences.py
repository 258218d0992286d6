"""What the templates of `sentences` say is text without marks of templates or wrong spaces."""

import re

import pytest
from jinja2 import UndefinedError

from tracecloak.anonymizers.contract import sentences
from tracecloak.anonymizers.registry import METHODS, method_named


@pytest.mark.parametrize("name", METHODS)
def test_what_a_method_says_is_well_spaced(name: str) -> None:
    method = method_named(name)
    for example in method.examples:
        params = method.Params(**example)
        guarantee = method.guarantee(params)
        said = (guarantee.claim, guarantee.reality, *guarantee.not_covered)
        for text in (*said, *method.explain(params), *method.costs(params)):
            assert text and not re.search(r"\s\s|\s[,.;:](\s|$)|\n|[{}]", text), text


def test_a_template_prints_nothing_that_it_is_not_given() -> None:
    method = method_named("sacofa")
    with pytest.raises(UndefinedError, match="in_all"):
        sentences.promise("sacofa", method.Params(**method.examples[0]))
