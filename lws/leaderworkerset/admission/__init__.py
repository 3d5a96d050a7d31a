"""Set defaults on a LeaderWorkerSet, validate it, and mutate its pods on creation."""
