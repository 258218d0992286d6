"""JSON Schema and Avro schemas of configurations and releases; no code."""
