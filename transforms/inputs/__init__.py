"""The files that a release reads: which ones its patterns match, and their bytes.

Here: this machine's, object stores by their own clients, others of Beam's file systems, tables of a
lake, whose files are no log, and streams of gzip. Not here: what the bytes hold, which is the
formats' affair, and what is written.
"""
