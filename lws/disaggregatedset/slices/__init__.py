"""How does each slice of a DisaggregatedSet go on?"""
