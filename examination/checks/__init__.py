"""`attack checks`: what must not get round a budget, tried on a copy of a configuration.

Here: the copy with scratch places, logs made up for it, a check for each way round, the report. Not
here: attacks on the numbers that are released (`examination/attack`).
"""
