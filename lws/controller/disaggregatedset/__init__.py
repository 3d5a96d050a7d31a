"""DisaggregatedSet as a kind of workload that the manager serves."""
