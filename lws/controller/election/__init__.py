"""Leader election: whether this process acts, and for which namespaces."""
