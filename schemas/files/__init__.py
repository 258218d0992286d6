"""Schemas for others to read: JSON Schema and Avro; no code."""
