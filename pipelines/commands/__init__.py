"""The command `tracecloak`: its flags, and the report of each command."""
