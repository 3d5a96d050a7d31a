"""The objects that a DisaggregatedSet controls: what they are made like, and how they are kept so."""
