"""Tables of a lake: which files one version of a table has, how it sees them, rows into a table.

Here: the table of kinds of tables, their addresses, and what tells which records of a file are
deleted and what its columns are called. Not here: the bytes of the files, which the formats read,
and files that lie in folders (`transforms.inputs`).
"""
