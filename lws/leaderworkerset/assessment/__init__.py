"""Assess a set: who owns its StatefulSet, its target revision, and the state of its rollout."""
