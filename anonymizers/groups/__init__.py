"""Variants whose activities are in groups: both levels measured together; no times, no files."""
