"""Process models as values: trees and Petri nets.

Here: what they mean and how they are written as text. Not here: files and drawings
(transforms/models), miners (anonymizers/trees).
"""
