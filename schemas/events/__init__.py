"""Events and cases: canonical columns, mapping, vocabulary, traces, attributes, calendars.

Here: what is read and what cases are made of. Not here: counts (statistics), open cases (streams).
"""
