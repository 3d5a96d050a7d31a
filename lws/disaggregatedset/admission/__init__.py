"""Validate DisaggregatedSets."""
