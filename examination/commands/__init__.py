"""The commands of examination, which the table of all commands names, and their flags."""
