"""The objects that a set controls: made, kept up, taken away."""
