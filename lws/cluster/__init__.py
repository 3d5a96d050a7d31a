"""The API server, and nothing else."""
