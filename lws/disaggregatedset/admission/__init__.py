"""Validation of a DisaggregatedSet."""
