"""The LeaderWorkerSet API, one module per version."""
