"""Defaulting and validation of a LeaderWorkerSet, and admission of its pods."""
