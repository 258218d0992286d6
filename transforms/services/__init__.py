"""Kafka, Pub/Sub and schema registries by their own clients: topics, tokens, clocks.

Here: what Kafka's and Pub/Sub's own clients are asked, and which of their errors pass with time. Not
here: sources, sinks and what becomes of messages (transforms/stream). There is no Beam.
"""
