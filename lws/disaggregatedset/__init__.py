"""Decisions about one DisaggregatedSet. Pure."""
