"""Beam for complete logs: read, validate, group, count, decide, apply, write."""
