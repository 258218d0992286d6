"""Output for the operator: results in one form for all commands, progress, completion.

Each command decides what it shows, and in which words.
"""
