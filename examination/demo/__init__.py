"""A synthetic hospital: its log, its lake, a live page of its stream."""
