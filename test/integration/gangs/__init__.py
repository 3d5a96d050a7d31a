"""On which versions of Kubernetes can these tests run? They have its scheduler place groups as a whole."""

FIRST = "1.36"
"""The first version that can; components of earlier ones end at once when they are given the gates for it."""
