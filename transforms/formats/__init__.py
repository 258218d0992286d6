"""Bytes to record batches and back, one format a file; without Beam.

Here: readers of XES, CSV, Parquet, Avro and JSON lines, and of messages, and writers of the first
three. Not here: what a release is made of (publish).
"""
