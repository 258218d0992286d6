"""Indicators of a process: what is declared, what a case adds to each, and what is made of sums.

`declared` is the language of a configuration, `summands` has what a case adds, and to which groups;
`figures` divides the budget among the sums, and makes values with intervals of them.
`private_indicators` is the method.
"""
