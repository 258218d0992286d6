"""Beam wiring, and the formats and files that it reads and writes. No arithmetic."""
