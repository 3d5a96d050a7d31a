"""The status of a set."""
