"""Queries as published: SaCoFa, SaPa and the Laplace queries, and their honest budgets.

Here: trace-variant queries level by level, directly-follows queries, the rules of behaviour,
play-out of a graph. Not here: rigorous generators (variants), PRIPEL, which asks one of these
(pripel).
"""
