"""A synthetic hospital: its log, its feed, a live page of its stream."""
