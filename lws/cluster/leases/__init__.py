"""Which manager acts, and on which shards?"""
