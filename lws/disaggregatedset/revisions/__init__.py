"""The recorded revisions of a DisaggregatedSet."""
