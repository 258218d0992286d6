"""What a release of a frame gives back: the log, the graph and the figures as frames."""

from __future__ import annotations

import html
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Generic

import pyarrow as pa
import pyarrow.parquet as pq
from narwhals.typing import IntoFrameT

from tracecloak.schemas.published.graph import ReleasedGraph
from tracecloak.schemas.published.manifest import MANIFEST_NAME
from tracecloak.schemas.texts.bounded_json import bounded_json
from tracecloak.transforms.publish.names import DFG_NAME, STATEMENT_NAME

_REPORT_NAME = "report.html"
_EDGES = 30


@dataclass(frozen=True)
class Released(Generic[IntoFrameT]):
    """A finished release, as its folder holds it; nothing in it is private.

    Its frames are of the type of the frame that came in.

    Attributes:
        folder: Where it lies.
        release_id: Its name.
        was_released_before: Whether this call found it there, and paid nothing.
        rows: What there is to say of it, as `tracecloak release` shows it: of what, and the text.
        keys: How the frame was read, and where the ledger is: the keys that `evaluate` needs, too.
    """

    folder: Path
    release_id: str
    was_released_before: bool
    rows: tuple[tuple[str, str], ...]
    _like_it: Callable[..., IntoFrameT] = field(repr=False)
    _columns: Mapping[str, str] = field(repr=False)
    keys: Mapping[str, Any] = field(repr=False)

    @cached_property
    def manifest(self) -> dict[str, Any]:
        """Everything that the release says of itself."""
        body: dict[str, Any] = bounded_json((self.folder / MANIFEST_NAME).read_bytes())
        return body

    @cached_property
    def log(self) -> IntoFrameT | None:
        """The released log, of the kind that came in and with its names; None: there is none.

        Its cases are new ones with ids of their own, and its times are in UTC.
        """
        parts = [path for path in self._paths if path.startswith("log/")]
        if not parts:
            return None
        table = pa.concat_tables([pq.read_table(self.folder / path) for path in parts])
        plain = table.replace_schema_metadata(None)
        names = [self._columns.get(n, n) for n in plain.column_names]
        return self._like_it(plain.rename_columns(names), is_log=True)

    @cached_property
    def graph(self) -> IntoFrameT | None:
        """The directly-follows graph as a frame, an edge a row; None: there is none.

        The columns are source, target and count, and where noise was added to a graph also low and
        high, between which the count lies with 95 %, kind and usable. `▶` and `■` are the ends.
        """
        graph = self._graph
        return None if graph is None else self._like_it(graph.to_table())

    @cached_property
    def indicators(self) -> IntoFrameT | None:
        """The indicators as a frame, one a row, with their intervals; None: there are none."""
        return self._product("indicators.parquet")

    @cached_property
    def figures(self) -> IntoFrameT | None:
        """Numbers of the release with their intervals as a frame; None: there are none."""
        return self._product("figures.parquet")

    @cached_property
    def statement(self) -> str:
        """The promise in words, in Markdown."""
        return (self.folder / STATEMENT_NAME).read_text(encoding="utf-8")

    @property
    def report(self) -> Path:
        """The page to open in a browser."""
        return self.folder / _REPORT_NAME

    def __repr__(self) -> str:
        """Returns what there is to say of it, a line each."""
        width = max(len(name) for name, _ in self.rows)
        return "\n".join(f"{name:<{width}}  {text}" for name, text in self.rows)

    def _repr_html_(self) -> str:
        """Returns the map, or the tree, and below it what there is to say of the release."""
        rows = "".join(
            f"<tr><th>{html.escape(name)}</th>"
            f"<td style='text-align:left'>{html.escape(text)}</td></tr>"
            for name, text in self.rows
        )
        return f"<div>{self._picture}<table>{rows}</table></div>"

    @property
    def _picture(self) -> str:
        trees = [path for path in self._paths if path == "tree.svg"]
        if trees:
            return (self.folder / trees[0]).read_text(encoding="utf-8")
        graph = self._graph
        if graph is None or not len(graph.counts):
            return ""
        from tracecloak.transforms.models.dfg_svg import write_svg

        title = self.manifest.get("about", {}).get("title") or self.release_id
        return write_svg(graph, title, self._promise, _EDGES)

    @cached_property
    def _graph(self) -> ReleasedGraph | None:
        if DFG_NAME not in self._paths:
            return None
        return ReleasedGraph.from_json(bounded_json((self.folder / DFG_NAME).read_bytes()))

    @property
    def _promise(self) -> str:
        return str(self.manifest["guarantee"]["sentence"])

    @property
    def _paths(self) -> list[str]:
        return [output["path"] for output in self.manifest["outputs"]]

    def _product(self, name: str) -> IntoFrameT | None:
        if name not in self._paths:
            return None
        table = pq.read_table(self.folder / name).replace_schema_metadata(None)
        return self._like_it(table)
