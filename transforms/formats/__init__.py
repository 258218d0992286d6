"""Bytes to record batches and back, one format a file; without Beam.

Here: readers and writers of XES, CSV, Parquet, Avro and JSON lines, and of messages. Not here: what
a release is made of (publish).
"""
