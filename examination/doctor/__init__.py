"""`tracecloak doctor`: what a scheduled run needs, checked before it starts.

Each looks at the real thing, at its service, folder or database, and none writes or spends. A line
of a check has no number and no value of the data, so neighbouring logs give the same lines; on a
terminal, which only the operator sees, a stream also counts messages.
"""
