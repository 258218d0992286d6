"""Delta and Iceberg tables: the files of a version, deleted rows and column names, appending.

Here: the table of kinds of tables, their addresses, and what tells which records of a file are
deleted and what its columns are called. Not here: the bytes of the files, which the formats read,
and files that lie in folders (`transforms.inputs`).
"""
