"""Assess a set: owner of its StatefulSet, target revision, and state of its rollout."""
