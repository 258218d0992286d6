"""Whole logs with a true epsilon: variants, times and attributes under one budget.

Here: `private-log`, `amun-rigorous`, `pripel-rigorous`, and the noisy tables that attributes are
drawn from. Not here: how variants are made (variants), and when cases take place (times).
"""
