"""The serving certificate of the webhooks."""
