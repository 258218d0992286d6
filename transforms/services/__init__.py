"""Kafka, Pub/Sub and schema registries by their own clients: topics, tokens, clocks.

Here: what Kafka's and Pub/Sub's own clients are asked, and which of their errors pass by
waiting. Not here: sources, sinks and what becomes of messages (transforms/stream). No Beam.
"""
