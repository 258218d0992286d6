"""Queries as published: SaCoFa, SaPa, the Laplace queries and PRIPEL, and their honest budgets."""


# --- Queries as published: SaCoFa, SaPa and the Laplace queries, and their honest budgets. --------
# Here: trace-variant queries level by level, directly-follows queries, the rules of behaviour,
# play-out of a graph. Not here: rigorous generators (variants), PRIPEL, which asks one of these
# (pripel).


# --- PRIPEL: a private variant query, enriched with times and attributes of matched cases. --------
# Here: the published method, its matching and its noise per value. Not here: its rigorous form
# (logs).
