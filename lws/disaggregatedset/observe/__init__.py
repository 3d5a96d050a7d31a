"""Read snapshots of DisaggregatedSets, and remember the manager's own writes."""
