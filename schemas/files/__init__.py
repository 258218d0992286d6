"""Schemas for others to read: JSON Schema, Avro, and our XES extension; no code."""
