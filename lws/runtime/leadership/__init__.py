"""Leases: one manager for all namespaces, or one for each shard of them."""
