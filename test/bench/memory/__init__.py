"""Measure what a manager's memory consists of."""
