"""May this DisaggregatedSet be stored?"""
