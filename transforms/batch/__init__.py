"""Beam for complete logs: read, validate, group, count, decide, apply, write."""

# Each shard costs a look-up table of all variants in every round.
DEFAULT_SHARDS = 8

# So many parts of what is counted are merged each by itself, by as many workers as there are.
DEFAULT_PARTS = 64

# About what a batch of cases takes when it travels; a single unit that is larger is one by itself.
BATCH_BYTES = 2 << 20
