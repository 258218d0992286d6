"""One stream, from its configuration to its end."""
