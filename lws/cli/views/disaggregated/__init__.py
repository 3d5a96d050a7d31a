"""Facts about DisaggregatedSets as text for a terminal."""
