"""Methods and mechanisms: noise, its accounting, and one package for each family. No Beam.

The families build on noise, accounting, contract and rigorous; `registry` lists all methods.
"""
