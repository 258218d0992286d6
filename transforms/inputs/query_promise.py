"""The promise of a release of the result of a query, which is for units of this result."""

from __future__ import annotations

from dataclasses import replace

from tracecloak.schemas.published.guarantee import Guarantee, Unit

_ONE: dict[Unit, str] = {
    "case": "one case", "individual": "one individual", "event": "one event",
}  # fmt: skip


def of_query_result(guarantee: Guarantee) -> Guarantee:
    """Returns a promise for units of the result of a query, with what that leaves open.

    What one unit of the database can change of the result depends on the query, of which nothing is
    known here.
    """
    sentence = (
        f"The promise is for {_ONE[guarantee.unit]} of the result of a query. If the query lets "
        "one of them change rows of others, as LIMIT, window functions, joins and aggregates can, "
        "the promise does not hold for those of the database. The query was not checked."
    )
    not_covered = (*guarantee.not_covered, sentence)
    return replace(guarantee, population="query result", not_covered=not_covered)
