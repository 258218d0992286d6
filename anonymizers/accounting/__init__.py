"""Arithmetic of epsilon and delta: how wide noise must be, and what all of it costs together.

Here: sensitivities, scales, thresholds, losses, composition and what a guess can gain. Not here:
random numbers (noise), and any data.
"""
