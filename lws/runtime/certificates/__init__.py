"""Certificates of the webhook server: provided, or issued and rotated here."""
