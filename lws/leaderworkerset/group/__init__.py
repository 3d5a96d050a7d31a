"""Observe and reconcile one group: a leader pod, its workers and the objects that belong to them."""
