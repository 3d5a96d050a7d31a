"""What commands find out about DisaggregatedSets."""
