"""Validate a DisaggregatedSet."""
