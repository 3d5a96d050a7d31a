"""What is the history of a DisaggregatedSet, and which revision does it want?"""
