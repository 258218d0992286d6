"""Cases that are still open: when one closes, with which events, and who counts how often.

Here: the rules and the state, as values. Not here: timers and watermarks (transforms/stream).
"""
