"""Plan the slices of a DisaggregatedSet."""
