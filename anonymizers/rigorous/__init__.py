"""What methods with a true epsilon share: parameters, parts, promise, private selection.

Here: epsilon, delta and unit as parameters, the parts that a method is made of with all that
follows from them, and vocabulary, length or clip bought with noise. Not here: what any one of them
releases.
"""
