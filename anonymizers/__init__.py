"""Methods and mechanisms: where noise is drawn, and what it is worth. No Beam.

Ground rooms are noise, accounting, contract and rigorous; each family of methods has a room of its
own; `registry` knows all methods.
"""
