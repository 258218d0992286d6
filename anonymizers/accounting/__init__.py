"""Arithmetic of epsilon and delta: scales of noise, and the loss of a whole release.

Here: sensitivities, scales, thresholds, losses, composition and what a guess can gain. Not here:
random numbers (noise), and any data.
"""
