"""How often an attacker can guess rightly which of several cases a release was made with.

One of k logs is drawn with equal chances, and the attacker sees a release of it and guesses which
it was. What differential privacy promises bounds the chance of a right guess, whatever the
attacker computes and knows; and so the guesses that were right bound epsilon from below.
"""

from __future__ import annotations

import math

from tracecloak.examination.audit.bounds import clopper_pearson
from tracecloak.schemas.errors import UsageError


def largest_success(
    epsilon: float, delta: float, n_candidates: int, *, are_neighbours: bool
) -> float:
    """Returns the largest probability of a right guess under (epsilon, delta)-privacy.

    Let p_j be the probability of guessing j where j is in, S_j the releases for which j is guessed,
    and k the candidates. The sets S_j share nothing. If any two candidates make neighbours,
    P_j(S_j) <= e^epsilon P_i(S_j) + delta for all i but j; added up over i and j it is
    (k - 1) p <= e^epsilon (1 - p) + (k - 1) delta for the mean p of the p_j. For two it is
    (e^epsilon + delta) / (1 + e^epsilon) (Kairouz, Oh and Viswanath, "The Composition Theorem for
    Differential Privacy", 2015). If each makes a neighbour of one log that is none of theirs, with
    probabilities P_0, then P_j(S_j) <= e^epsilon P_0(S_j) + delta, and the same of what is not in
    S_j with the logs exchanged: p <= e^epsilon / k + delta, and
    p <= 1 - e^-epsilon (1 - 1 / k - delta). What else the attacker knows does not matter, nor a
    release of the log without the case, as neither depends on the draw.

    Args:
        epsilon: Not negative.
        delta: In [0, 1].
        n_candidates: At least 2, equally likely.
        are_neighbours: Whether the logs of any two candidates are neighbours; otherwise each is
            one of the log without a candidate.

    Raises:
        UsageError: An argument is outside its range.
    """
    _check(delta, n_candidates)
    if not epsilon >= 0:
        raise UsageError(f"epsilon must be at least 0, got {epsilon!r}")
    shrunk = math.exp(-epsilon)
    if are_neighbours:
        others = (n_candidates - 1) * shrunk
        return min(1.0, (1 + others * delta) / (1 + others))
    above = 1 - shrunk * (1 - 1 / n_candidates - delta)
    at_most = math.exp(min(epsilon, 700.0)) / n_candidates + delta  # e^700 is still a float
    return min(1.0, at_most, above)


def epsilon_of_guesses(
    n_right: int,
    n_games: int,
    n_candidates: int,
    delta: float,
    confidence: float,
    *,
    are_neighbours: bool,
) -> float:
    """Bounds epsilon from below by right guesses of independent games: `largest_success` inverted.

    At the one-sided bound of Clopper and Pearson (1934): games that are each won with at most that
    probability are together won no more often than as many coins of it, whatever their logs.

    Args:
        n_right: Games that were won.
        n_games: Games that were played, at least 1; fixed beforehand.
        n_candidates: At least 2, the same in all games.
        delta: In [0, 1].
        confidence: In (0.5, 1): probability at least that the bound is right.
        are_neighbours: As of `largest_success`.

    Returns:
        Epsilon, or 0 if so many right guesses may be luck.

    Raises:
        UsageError: An argument is outside its range.
    """
    _check(delta, n_candidates)
    if not 0.5 < confidence < 1:
        raise UsageError(f"confidence must lie strictly between 0.5 and 1, got {confidence!r}")
    share = clopper_pearson(n_right, n_games, 2 * (1 - confidence))[0]
    if are_neighbours:
        ratios = [(n_candidates - 1) * (share - delta) / (1 - share)]
    else:
        ratios = [
            n_candidates * (share - delta),
            (1 - 1 / n_candidates - delta) / (1 - share),
        ]
    return math.log(max(1.0, *ratios))


def _check(delta: float, n_candidates: int) -> None:
    if not 0 <= delta <= 1:
        raise UsageError(f"delta must lie between 0 and 1, got {delta!r}")
    if n_candidates < 2:
        raise UsageError(f"a game needs at least 2 candidates, got {n_candidates}")
