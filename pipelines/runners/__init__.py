"""Beam's runners: their options, what each can do, and mends of the local ones."""
