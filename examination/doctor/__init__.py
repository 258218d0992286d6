"""What a night needs is looked at before it: a check is a function of one of the files here.

Each looks at the real thing, at its service, folder or database, and none writes or spends. A line
of a check has no number and no value of the data, so neighbouring logs give the same lines; on a
terminal, which only the operator sees, a stream also counts messages.
"""
