"""Windows of a schedule: several releases by one command, what became of each, and the calendar.

How one window is released is in `pipelines.release`.
"""
