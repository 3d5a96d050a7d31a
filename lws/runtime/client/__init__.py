"""The connection to the API server."""
