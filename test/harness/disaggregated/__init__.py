"""DisaggregatedSets in tests on a cluster: manifests, how they stand, what was promised."""
