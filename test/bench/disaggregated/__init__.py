"""What DisaggregatedSets cost, compared with the same LeaderWorkerSets created directly."""
