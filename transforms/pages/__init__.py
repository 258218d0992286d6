"""Pages: one HTML file each that needs no network, with what all of them share.

Here: the frame, its style, what moves in it, and the libraries that it carries. Not here: what a
page says of a release, a stream or an attack.
"""
