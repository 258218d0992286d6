"""Indicators of a process: what is declared, what a case adds to each, and what is made of sums.

`declared` is the language of a configuration, `summands` what a case adds, `populations` of which
cases an indicator speaks; `parts` divides the budget among the sums, and `figures` makes values
with intervals of them. `private_indicators` is the method.
"""
