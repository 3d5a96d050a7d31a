"""Decisions about one LeaderWorkerSet. Pure."""
