"""Read, compare and build plain Kubernetes objects, without I/O and without knowledge of our kinds."""
