"""What methods say of themselves, in the words of templates: one of each, in `sentences`.

A template has a macro for each thing that is said. Its lines end anywhere; an empty line ends a
sentence that stands for itself. No space is left before a comma or a full stop, so these can begin
a line.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from fractions import Fraction
from functools import cache
from typing import Any

from tracecloak.anonymizers.accounting.composition import decimal_text
from tracecloak.schemas.published.manifest import at_most
from tracecloak.schemas.texts import templates_of

_BEFORE_MARKS = re.compile(r" +(?=[,.;:](?: |$))")


@cache
def _templates() -> Any:
    templates = templates_of("tracecloak.anonymizers", "sentences", auto_reload=False)
    templates.filters |= {
        "as": format,  # a number by a format of Python
        "decimal": lambda number: decimal_text(Fraction(number)),
        "at_most": at_most,
    }
    return templates


def sentences(template: str, said: str, params: Any, **values: Any) -> tuple[str, ...]:
    """Returns what a macro of a template says, each text between empty lines.

    Args:
        template: Its name without its ending, which is that of a method.
        said: The macro.
        params: The parameters of the method, `p` in the template.
        values: What else it prints, by name.
    """
    return _said(_module(template, params, values), said)


def _module(template: str, params: Any, values: dict[str, Any]) -> Any:
    return _templates().get_template(f"{template}.j2").make_module({"p": params, **values})


def _said(module: Any, said: str) -> tuple[str, ...]:
    texts = re.split(r"\n\s*\n", getattr(module, said)())
    return tuple(_BEFORE_MARKS.sub("", " ".join(text.split())) for text in texts if text.strip())


def sentence(template: str, said: str, params: Any, **values: Any) -> str:
    """Returns what a macro says as one text; see `sentences`."""
    return " ".join(sentences(template, said, params, **values))


def told(template: str, said: str, params: Any, **values: Any) -> Callable[[Any], str]:
    """Returns what says it when it is asked: the sentence of a part.

    In the template `by` is what it is asked with: what the part may spend, or its noise.
    """
    return lambda by: sentence(template, said, params, by=by, **values)


def promise(template: str, params: Any, **values: Any) -> dict[str, Any]:
    """Returns the texts of a `Guarantee`: the macros claim, reality and not_covered."""
    module = _module(template, params, values)
    said = {name: " ".join(_said(module, name)) for name in ("claim", "reality")}
    return {**said, "not_covered": _said(module, "not_covered")}
