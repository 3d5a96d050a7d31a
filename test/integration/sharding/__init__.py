"""Several managers side by side, each acting on shards of namespaces."""
