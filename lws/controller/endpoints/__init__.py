"""Probes and metrics of the manager."""
