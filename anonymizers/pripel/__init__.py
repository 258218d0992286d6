"""PRIPEL: a private variant query, enriched with times and attributes of matched cases.

Here: the published method, its matching and its noise per value. Not here: its rigorous form
(logs).
"""
