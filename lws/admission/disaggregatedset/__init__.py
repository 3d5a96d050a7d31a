"""Admission of DisaggregatedSets."""
