"""Admission reviews: received, decided, answered."""
