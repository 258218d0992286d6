"""The command `tracecloak`: flags, progress, what is printed. The only room that prints."""
