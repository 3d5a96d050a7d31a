"""Probes, metrics and debug endpoints."""
