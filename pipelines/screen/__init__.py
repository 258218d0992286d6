"""What an operator sees: results in one form for all commands, progress, scripts of completion.

What a command finds out, and in which words, is the command's own.
"""
