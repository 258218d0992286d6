"""Methods at the same true epsilon, next to peers that are not offered.

Not here: the papers' evaluations, which are `examination.experiments` and measure by an
`Original` of this room, too.
"""
