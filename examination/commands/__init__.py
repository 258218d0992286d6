"""The commands of what examines and shows; the table of all commands knows their places."""
