"""The status of a DisaggregatedSet."""
