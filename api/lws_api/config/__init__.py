"""The API of the manager's configuration file, one module per version."""
