"""Into how many shards a shuffle sends the cases, and how large a batch of them may become."""

# Each shard costs a look-up table of all variants in every round.
DEFAULT_SHARDS = 8

# About what a batch of cases takes when it travels; a single unit that is larger is one by itself.
BATCH_BYTES = 2 << 20
