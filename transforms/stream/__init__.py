"""Beam for streams: messages in, open cases, steps out."""
