"""Amun: a log whose cases gain an attacker no more than a given advantage, as published.

Here: the method, its rounds, and how cases are sampled, filtered or repeated. Not here: its
rigorous form (logs), arithmetic of a guess (accounting).
"""
