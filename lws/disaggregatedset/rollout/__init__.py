"""Decide the rollout of one slice from numbers of groups alone."""
