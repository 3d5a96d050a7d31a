"""Faults that the product must survive without help, one at a time."""
