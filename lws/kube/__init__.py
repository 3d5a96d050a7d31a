"""Functions of plain Kubernetes objects, without I/O and without knowledge of our kinds."""
