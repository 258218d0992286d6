"""Windows of a schedule: several releases by one command, their states, and the calendar.

How one window is released is in `pipelines.release`.
"""
