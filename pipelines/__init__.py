"""Runs: commands, releases, streams, windows, budgets, verification."""
