"""The documentation site: its pages, and in `hooks` what is made of the code when it is built.

What the tests of the pages need lives in `tests/docs`.
"""
