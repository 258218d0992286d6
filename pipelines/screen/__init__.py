"""What an operator sees: results in one form for all commands, progress, scripts of completion.

Each command decides what it shows, and in which words.
"""
