"""What is read before a DisaggregatedSet is planned, and what is remembered of writes."""
