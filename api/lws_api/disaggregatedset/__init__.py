"""The DisaggregatedSet API, one module per version."""
