"""Plans for the slices of a DisaggregatedSet."""
