"""Results of a run for other programs: metrics for Prometheus, events of OpenLineage.

All of it is public or the operator's own: no number that was counted on a log is among it.
"""
