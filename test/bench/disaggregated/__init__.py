"""What DisaggregatedSets cost, beside the same LeaderWorkerSets without them."""
