"""Open cases of a stream: when one closes, with which events, and how often an individual counts.

Here: the rules and the state, as values. Not here: timers and watermarks (transforms/stream).
"""
