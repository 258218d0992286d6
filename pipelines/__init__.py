"""What is run: commands, releases, streams, windows, budgets, what a recipient verifies."""
