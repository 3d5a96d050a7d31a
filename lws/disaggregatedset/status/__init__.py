"""What does the status of a DisaggregatedSet say?"""
