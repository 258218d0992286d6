"""What is run: commands, releases, streams, budgets, attacks, experiments."""
