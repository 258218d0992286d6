"""What other programs are told of how a run went: metrics for Prometheus, events of OpenLineage.

All of it is public or the operator's own: no number that was counted on a log is among it.
"""
