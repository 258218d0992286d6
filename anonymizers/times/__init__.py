"""Times of generated logs, from noisy counts of when cases start and how long all takes.

Here: what is counted, decided and drawn, each with its part of a release (anonymizers.rigorous),
and how it is tied to the released variants. Not here: the method that releases the log (logs).
"""
