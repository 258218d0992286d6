"""Texts of templates that are no pages: Markdown, what a screen shows, scripts of shells."""

from __future__ import annotations

from typing import Any

import jinja2

# Stands for the end of a line within a value, while ends of lines are those of the template.
_WITHIN = "\x00"


def from_template(room: str, template: str, **context: Any) -> list[str]:
    """Returns the lines of a text; a value is printed as it is, within its line whatever it holds.

    Args:
        room: The package that has the template.
        template: Its file there.
        context: What it prints.
    """
    templates = jinja2.Environment(
        loader=jinja2.PackageLoader(room, ""),
        undefined=jinja2.StrictUndefined,
        autoescape=False,  # it would escape for HTML
        finalize=lambda value: str(value).replace("\n", _WITHIN),
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    text = templates.get_template(template).render(context)
    return [line.replace(_WITHIN, "\n") for line in text.removesuffix("\n").split("\n")]
