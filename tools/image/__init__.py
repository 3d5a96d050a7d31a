"""Build the container image with the programs that a machine has: `make image`."""
