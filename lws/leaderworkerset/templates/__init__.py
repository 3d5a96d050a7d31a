"""Build the objects of a set from its spec."""
