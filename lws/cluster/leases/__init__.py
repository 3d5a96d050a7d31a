"""Leases: which manager acts, and on which shards."""
