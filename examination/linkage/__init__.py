"""`attack linkage`: finished releases attacked by what somebody knows of a case."""
