"""Beam for finished logs: read, validate, group, count, decide, apply, write."""
