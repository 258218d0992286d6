"""Small changes of a source that make it wrong: what a slip of the hand would have written.

Each mutant is one source with one change. What is only said, not computed, is left alone: texts,
annotations, and what is raised.
"""

from __future__ import annotations

import ast
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

_COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq, ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is,
}  # fmt: skip
_OPERATORS: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.FloorDiv, ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult, ast.Mod: ast.FloorDiv, ast.Pow: ast.Mult, ast.LShift: ast.RShift,
    ast.RShift: ast.LShift, ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd, ast.BitXor: ast.BitAnd,
}  # fmt: skip
# Calls that a result goes through, and that can be forgotten.
_WRAPPERS = frozenset(
    ("abs", "ceil", "clip", "floor", "max", "maximum", "min", "minimum", "rint", "sort", "sorted",
     "sqrt", "unique")
)  # fmt: skip
_SAID = (ast.Raise, ast.JoinedStr, ast.Import, ast.ImportFrom, ast.arguments)


@dataclass(frozen=True)
class Mutant:
    """A source with one change.

    Attributes:
        path: Of the source, from the root.
        line: Of the change in the original.
        what: The change, as `original -> changed`.
        source: The whole changed source.
    """

    path: str
    line: int
    what: str
    source: str


def mutants_of(path: str, source: str) -> Iterator[Mutant]:
    """Yields every mutant of a source of Python, in the order of its lines."""
    tree = ast.parse(source)
    for owner, field, number, node in sorted(_places(tree), key=lambda place: place[3].lineno):
        for changed in _changed(node):
            _put(owner, field, number, changed)
            whole = ast.unparse(ast.fix_missing_locations(tree))
            _put(owner, field, number, node)
            what = f"{_short(node)} -> {_short(changed)}"
            yield Mutant(path, node.lineno, what, whole)


def chosen(root: Path, paths: Sequence[str], n: int, seed: int) -> list[Mutant]:
    """Returns n different mutants of sources that are drawn by their sizes.

    Args:
        root: The checkout.
        paths: Of the sources, from the root.
        n: How many, as far as the sources drawn have them.
        seed: The choice follows from it and from the sources.
    """
    dice = random.Random(seed)
    texts = {path: (root / path).read_text(encoding="utf-8") for path in paths}
    drawn = dice.choices(list(texts), weights=[len(text) for text in texts.values()], k=n)
    found = []
    for path, k in sorted(Counter(drawn).items()):
        every = list(mutants_of(path, texts[path]))
        found += dice.sample(every, min(k, len(every)))
    return found


_Place = tuple[ast.AST, str, int | None, ast.expr | ast.stmt]


def _places(node: ast.AST) -> Iterator[_Place]:
    """Yields what is computed below a node: its owner, field, place in a list, and itself."""
    for field, value in ast.iter_fields(node):
        if field in ("annotation", "returns", "decorator_list", "bases", "type_params"):
            continue
        for number, child in enumerate(value) if isinstance(value, list) else [(None, value)]:
            if not isinstance(child, ast.AST) or isinstance(child, _SAID):
                continue
            if isinstance(child, ast.expr | ast.stmt):
                yield node, field, number, child
            yield from _places(child)


def _put(owner: ast.AST, field: str, number: int | None, node: ast.AST) -> None:
    if number is None:
        setattr(owner, field, node)
    else:
        getattr(owner, field)[number] = node


def _changed(node: ast.expr | ast.stmt) -> Iterator[ast.expr | ast.stmt]:
    match node:
        case ast.Compare(left=left, ops=[first, *others], comparators=right):
            if type(first) in _COMPARISONS:
                yield ast.Compare(left, [_COMPARISONS[type(first)](), *others], right)
        case ast.Constant(value=int(value)) if not isinstance(value, bool):
            yield ast.Constant(value + 1)
            yield ast.Constant(value - 1)
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS:
            yield ast.BinOp(left, _OPERATORS[type(op)](), right)
        case ast.BoolOp(op=op, values=values):
            yield ast.BoolOp(ast.Or() if isinstance(op, ast.And) else ast.And(), values)
        case ast.Call(func=function, args=[first, *_]) if _name(function) in _WRAPPERS:
            yield first
        case ast.Expr(value=ast.Call()):
            yield ast.Pass()
        case ast.If(test=test, body=body, orelse=orelse):
            yield ast.If(ast.UnaryOp(ast.Not(), test), body, orelse)
        case ast.IfExp(test=test, body=one, orelse=other):
            yield ast.IfExp(test, other, one)
        case ast.UnaryOp(op=ast.USub() | ast.Not(), operand=operand):
            yield operand


def _name(function: ast.expr) -> str:
    if isinstance(function, ast.Attribute):
        return function.attr
    return function.id if isinstance(function, ast.Name) else ""


def _short(node: ast.AST) -> str:
    return ast.unparse(ast.fix_missing_locations(node)).partition("\n")[0][:80]
