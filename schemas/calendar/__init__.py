"""Time without events: the clock of a place, working hours, grids of stamps, durations as texts.

Not here: the times of a log, and how its stamps are read, which is in `schemas.events`.
"""
