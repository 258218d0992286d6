"""Beam wiring around the kernels of `schemas` and `anonymizers`; no arithmetic of its own."""
