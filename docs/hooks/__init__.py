"""What the site shows of the code itself, made when the site is built: one kind of page a file.

`site.py` is what mkdocs calls. The others return the text of pages, in Markdown, and know nothing
of mkdocs.
"""
