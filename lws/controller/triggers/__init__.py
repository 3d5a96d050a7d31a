"""Triggers: which change wakes which pass."""
