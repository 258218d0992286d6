"""The table of kinds of products of a release: what each is, and in which forms it is written."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from tracecloak.schemas.plugins import Plugins, load
from tracecloak.schemas.published.figures import ReleasedProduct

if TYPE_CHECKING:
    from tracecloak.schemas.published.manifest import ReleaseManifest
    from tracecloak.schemas.published.variants import LogCounts


@dataclass(frozen=True)
class ProductKind:
    """A kind of product; every one is written as Parquet and JSON.

    Attributes:
        product: Place of its class, which follows `ReleasedProduct`, as `module:attribute`.
        forms: Place of a function of a product, a title and the promise in a sentence, which
            returns its further files by the endings of their names; None: it has none.
        of_log: Place of a function of a product and of what was counted on the released log
            (`variants.LogCounts`), which returns further products by name; None: none follow. It
            reads nothing else, so that whoever has the release makes them again.
        part: Place of a function of a product and of the method's parameters, as in a manifest,
            which returns its part of the release's page (`pages.page.PagePart`); None: the page
            shows it in its own way, or not at all.
    """

    product: str
    forms: str | None = None
    of_log: str | None = None
    part: str | None = None

    def read(self, body: Any) -> ReleasedProduct:
        """Returns the product that has these JSON values.

        Raises:
            ValueError: None of this kind has; of values that no kind has, anything may be raised.
        """
        product: ReleasedProduct = load(self.product).from_json(body)
        if product.to_json() != body:
            raise ValueError("these are the values of no product of this kind")
        return product


def called(place: str | None, *args: Any) -> Any:
    """Returns what the function at a place returns; None: there is no place, or nothing."""
    return None if place is None else load(place)(*args)


PRODUCTS: Plugins[ProductKind] = Plugins(
    "kind of product",
    "tracecloak.products",
    {
        "graph": ProductKind(
            "tracecloak.schemas.published.graph:ReleasedGraph",
            "tracecloak.transforms.models.dfg_svg:forms_of_graph",
        ),
        "durations": ProductKind("tracecloak.schemas.published.graph:ReleasedDurations"),
        "figures": ProductKind("tracecloak.schemas.published.figures:ReleasedFigures"),
        "groups": ProductKind(
            "tracecloak.schemas.published.graph:ReleasedGroups",
            "tracecloak.transforms.models.dfg_svg:forms_of_groups",
        ),
        "indicators": ProductKind(
            "tracecloak.schemas.published.figures:ReleasedIndicators",
            part="tracecloak.transforms.pages.indicators_part:indicators_part",
        ),
        "measures": ProductKind(
            "tracecloak.schemas.published.figures:ReleasedMeasures",
            of_log="tracecloak.anonymizers.logs.log_figures:figures_of_log",
        ),
        "variants": ProductKind("tracecloak.schemas.published.variants:ReleasedVariants"),
        "tree": ProductKind(
            "tracecloak.schemas.published.graph:ReleasedTree",
            "tracecloak.transforms.models.tree_forms:forms_of_tree",
        ),
    },
    kind=ProductKind,
)


def kind_of(product: ReleasedProduct) -> ProductKind:
    """Returns the kind of a product.

    Raises:
        TypeError: There is no kind of its class.
    """
    place = f"{type(product).__module__}:{type(product).__qualname__}"
    # That of its own place comes first, so that the classes of others are not loaded.
    for kind in sorted(PRODUCTS.values(), key=lambda kind: kind.product != place):
        if load(kind.product) is type(product):
            return kind
    raise TypeError(f"{place} is no product: it is of no kind in the table of products")


def parquet_of(table: pa.Table, manifest: ReleaseManifest) -> bytes:
    """Returns a file of Parquet that says of which release it is."""
    body = json.dumps(manifest.to_json(), ensure_ascii=False)
    sink = pa.BufferOutputStream()
    marked = table.replace_schema_metadata({"tracecloak.release": body})
    pq.write_table(marked, sink, compression="zstd")
    return sink.getvalue().to_pybytes()


def products_of_log(
    products: Mapping[str, ReleasedProduct], log: LogCounts | None
) -> dict[str, ReleasedProduct]:
    """Returns by name the products that follow from others and from the released log.

    Args:
        products: What is released beside the log, by name.
        log: What was counted on it; None where there is none: then nothing follows.
    """
    following: dict[str, ReleasedProduct] = {}
    for product in products.values():
        if log is not None:
            following |= called(kind_of(product).of_log, product, log) or {}
    return following
