"""Draws a process tree as one SVG file that needs nothing else.

No script, no style sheet, no font, no address: the file shows the same in a closed network, and
tells nobody that it was opened. Its bytes depend on the tree and the words only. It is drawn as a
BPMN diagram: rounded boxes are activities, a diamond with a cross is a choice, one with a plus
means that all of its ways are gone in any order, and ways back are orange.
"""

from __future__ import annotations

from tracecloak.schemas.models.process_tree import ProcessTree
from tracecloak.transforms.models.dfg_labels import isolated, wrap
from tracecloak.transforms.models.plain_names import plain_name
from tracecloak.transforms.models.tree_layout import (
    LINE,
    NAME_SIZE,
    Diagram,
    DiagramNode,
    Flow,
    lay_out_tree,
)

_TITLE_SIZE, _CAPTION_SIZE = 17.0, 11.0  # pixels
_MARGIN, _LEAST_WIDTH = 24.0, 520.0
_ARROW = 7.0
_FONT = "font-family:Helvetica,Arial,'Noto Sans',sans-serif"
_INK, _FAINT, _FORWARD, _BACKWARD = "#1c2b3a", "#52616f", "#47688c", "#b0653a"


def write_tree_svg(tree: ProcessTree, title: str, caption: str) -> str:
    """Returns the tree as SVG, from the start at the left to the end at the right.

    Args:
        tree: What to draw.
        title: Stands above it.
        caption: Stands below it, such as the sentence that says what the release guarantees.
    """
    diagram = lay_out_tree(tree)
    width = max(diagram.width, _LEAST_WIDTH)
    heads = wrap(plain_name(title), _TITLE_SIZE, width)
    caption_text = " ".join(plain_name(word) for word in caption.split())
    words = wrap(caption_text, _CAPTION_SIZE, width)
    above = _MARGIN + LINE * _TITLE_SIZE * len(heads) + 12
    below = above + diagram.height + 20
    height = below + LINE * _CAPTION_SIZE * len(words) + _MARGIN
    across, down = _n(width + 2 * _MARGIN), _n(height)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{across}" height="{down}"'
        f' viewBox="0 0 {across} {down}" role="img" style="{_FONT}">',
        f"<title>{_escape(plain_name(title))}</title>",
        f"<desc>{_escape(caption_text)}</desc>",
        f'<rect width="{across}" height="{down}" fill="#ffffff"/>',
    ]
    for i, line in enumerate(heads):
        y = _MARGIN + LINE * _TITLE_SIZE * (i + 0.75)
        parts.append(_words(line, _MARGIN, y, _TITLE_SIZE, _INK, ' font-weight="bold"'))
    left = _MARGIN + (width - diagram.width) / 2
    parts.append(f'<g transform="translate({_n(left)} {_n(above)})">')
    parts += [_flow(flow) for flow in diagram.flows]
    parts += [_node(node, _is_open(diagram, i)) for i, node in enumerate(diagram.nodes)]
    parts.append("</g>")
    for i, line in enumerate(words):
        y = below + LINE * _CAPTION_SIZE * (i + 0.75)
        parts.append(_words(line, _MARGIN, y, _CAPTION_SIZE, _FAINT))
    return "\n".join([*parts, "</svg>", ""])


def _is_open(diagram: Diagram, number: int) -> bool:
    return sum(flow.source == number for flow in diagram.flows) > 1


def _flow(flow: Flow) -> str:
    (x, y), (before_x, before_y) = flow.points[-1], flow.points[-2]
    is_back = any(b[0] < a[0] for a, b in zip(flow.points, flow.points[1:], strict=False))
    ink = _BACKWARD if is_back else _FORWARD
    # Along the last piece: one of the two is 0.
    across = (x > before_x) - (x < before_x)
    down = (y > before_y) - (y < before_y)
    foot = (x - _ARROW * across, y - _ARROW * down)
    half = _ARROW / 2
    path = "L".join(f"{_n(a)} {_n(b)}" for a, b in (*flow.points[:-1], foot))
    head = "L".join(
        f"{_n(a)} {_n(b)}"
        for a, b in (
            (x, y),
            (foot[0] - half * down, foot[1] - half * across),
            (foot[0] + half * down, foot[1] + half * across),
        )
    )
    return (
        f'<g class="flow"><path d="M{path}" fill="none" stroke="{ink}" stroke-width="1.4"'
        f' stroke-linejoin="round"/><path d="M{head}Z" fill="{ink}"/></g>'
    )


def _node(node: DiagramNode, is_open: bool) -> str:
    x, y = node.x + node.width / 2, node.y + node.height / 2
    if node.label is not None:
        return _task(node, x, y)
    half = node.width / 2
    if node.kind in ("start", "end"):
        stroke = 1.5 if node.kind == "start" else 4
        return (
            f'<g class="{node.kind}"><title>{node.kind}</title><circle cx="{_n(x)}" cy="{_n(y)}"'
            f' r="{_n(half - stroke / 2)}" fill="#ffffff" stroke="{_FORWARD}"'
            f' stroke-width="{_n(stroke)}"/></g>'
        )
    arm = half / 2.4
    sign = (
        f"M{_n(x - arm)} {_n(y)}h{_n(2 * arm)}M{_n(x)} {_n(y - arm)}v{_n(2 * arm)}"
        if node.kind == "parallel"
        else f"M{_n(x - arm)} {_n(y - arm)}l{_n(2 * arm)} {_n(2 * arm)}"
        f"M{_n(x - arm)} {_n(y + arm)}l{_n(2 * arm)} {_n(-2 * arm)}"
    )
    meaning = {
        ("exclusive", True): "one of these",
        ("parallel", True): "all of these, in any order",
    }.get((node.kind, is_open), "together again")
    return (
        f'<g class="{node.kind}"><title>{meaning}</title>'
        f'<path d="M{_n(x - half)} {_n(y)}L{_n(x)} {_n(y - half)}L{_n(x + half)} {_n(y)}'
        f'L{_n(x)} {_n(y + half)}Z" fill="#fdf6e3" stroke="{_FORWARD}"/>'
        f'<path d="{sign}" fill="none" stroke="{_INK}" stroke-width="2"/></g>'
    )


def _task(node: DiagramNode, x: float, y: float) -> str:
    parts = [
        f'<g class="task"><title>{_escape(isolated(plain_name(node.label or "")))}</title>'
        f'<rect x="{_n(node.x)}" y="{_n(node.y)}" width="{_n(node.width)}"'
        f' height="{_n(node.height)}" rx="7" fill="#e9f0f7" stroke="{_FORWARD}"/>'
    ]
    line = y - LINE * NAME_SIZE * (len(node.lines) - 1) / 2 + 0.35 * NAME_SIZE
    for text in node.lines:
        parts.append(_words(text, x, line, NAME_SIZE, _INK, ' text-anchor="middle"'))
        line += LINE * NAME_SIZE
    return "".join([*parts, "</g>"])


def _words(text: str, x: float, y: float, size: float, ink: str, more: str = "") -> str:
    return (
        f'<text x="{_n(x)}" y="{_n(y)}" font-size="{_n(size)}" fill="{ink}"{more}>'
        f"{_escape(text)}</text>"
    )


def _escape(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _n(value: float) -> str:
    """A length to a tenth of a pixel."""
    return f"{value + 0.0:.1f}".removesuffix(".0")
