"""Flags, configuration, runners and the command; the only package that prints."""
