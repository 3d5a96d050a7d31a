"""What do commands find out about DisaggregatedSets?"""
