"""Build the status of a set."""
