"""One release beside its log: whether it is of it, what it keeps, and the report; no measure."""
