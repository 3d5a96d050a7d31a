"""The server that answers admission reviews."""
