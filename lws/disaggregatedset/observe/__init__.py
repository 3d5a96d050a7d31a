"""Read snapshots of DisaggregatedSets, and record writes."""
