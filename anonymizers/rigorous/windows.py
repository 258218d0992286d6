"""What releases of several windows cost together, where individuals are the unit.

Windows of a schedule hold different cases, so where the case is the unit all of them together cost
what the dearest one costs. An individual may have cases in several windows, and at most m in all of
them together. That costs it no more either if j of m cases cost at most j/m of what a window pays
(`anonymizers.accounting.composed`); else the windows add up for it.
"""

from __future__ import annotations

from typing import Any

from tracecloak.anonymizers.contract import method as contract


def windows_add_up(method: contract.Anonymizer, params: Any) -> bool:
    """Returns whether windows add up for an individual, rather than cost what the dearest costs.

    For individuals who count with one case in all windows, and for cases, they never do.

    Args:
        method: The method.
        params: Its parameters. The m of `max_cases_per_individual` must be at least the number of
            cases with which an individual counts in all windows together.

    Raises:
        UsageError: Noise as wide as some part may need cannot be drawn.
    """
    max_cases = method.bounds(params).max_cases_per_individual or 1
    return max_cases > 1 and not method.shares_by_case(params)


def windows_sentence(method: contract.Anonymizer, params: Any) -> str:
    """Returns what several windows of a schedule cost together, for the plan and the manifest.

    Empty where no finite epsilon holds: there is nothing to compare.

    Args:
        method: The method.
        params: Its parameters.

    Raises:
        UsageError: Noise as wide as some part may need cannot be drawn.
    """
    if method.guarantee(params).epsilon is None:
        return ""
    max_cases = method.bounds(params).max_cases_per_individual
    if max_cases is None:
        return "A case counts in one window only, so all windows together cost " + _DEAREST
    if max_cases == 1:
        return (
            "An individual counts with one case in one window only, so all windows together cost "
            + _DEAREST
        )
    counts = f"An individual counts with at most {max_cases:,} cases in all windows together"
    if windows_add_up(method, params):
        return (
            f"{counts}, but one of them may cost as much as all of them: what its windows cost "
            "adds up."
        )
    return (
        f"{counts}, and each costs at most 1/{max_cases} of what its window pays, so all windows "
        f"together cost {_DEAREST}"
    )


_DEAREST = "what the dearest of them costs."
