"""Into how many shards a shuffle sends the cases where nobody says it."""

# Each shard costs a look-up table of all variants in every round.
DEFAULT_SHARDS = 8
