"""Run the product in tests, read the state of its objects and disturb the cluster."""
