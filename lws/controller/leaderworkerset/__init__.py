"""LeaderWorkerSet in the manager: its passes, routes, reviews and metrics."""
