"""Products of a stream by step, and the noise that sums over steps need.

Here: products of a step, continual mechanisms, caps on individuals over steps. Not here: when a
case closes (schemas/streams), state and timers (transforms/stream).
"""
