"""The history of a DisaggregatedSet and its target revision."""
