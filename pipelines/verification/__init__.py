"""`verify`: what a recipient can check with nothing but the folder of a release.

Here: reading a folder that may be hostile, and what must hold of it: its files, what it says of
itself, its data, its signature. Nothing here needs keys, ledger or the original log, and nothing is
trusted: whatever is wrong with a file is a finding. Not here: how a signature is made
(transforms/keys), what parts of a budget come to (anonymizers/accounting), and how good a release
is (examination/evaluation).
"""
