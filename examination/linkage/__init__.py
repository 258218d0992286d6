"""`attack linkage`: finished releases attacked with background knowledge of a case."""
