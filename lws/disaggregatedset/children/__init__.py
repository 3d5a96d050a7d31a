"""Create and maintain the objects that a DisaggregatedSet controls."""
