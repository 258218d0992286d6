"""Events and cases: canonical columns, mapping, vocabulary, traces, attributes, calendars.

Here: what readers return and what cases consist of. Not here: counts
(statistics), open cases (streams).
"""
