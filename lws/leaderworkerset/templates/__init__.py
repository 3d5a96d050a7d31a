"""Builders for the objects of a set."""
