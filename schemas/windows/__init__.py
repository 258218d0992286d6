"""Time windows of a data lake: where each begins, what it reads, and which cases it counts.

Here: the calendar arithmetic of a schedule, and belonging. Not here: who counted already, and the
reading of files (transforms), money (pipelines/budget).
"""
