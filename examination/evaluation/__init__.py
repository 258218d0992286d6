"""One release next to its log: whether they belong together, its measures, the report."""
