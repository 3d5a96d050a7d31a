"""Several managers, each active for some of the shards."""
