"""The papers' evaluations: a grid of releases each, run, resumed, judged and shown alike."""
