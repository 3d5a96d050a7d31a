"""`make image`: the container image, built with what a machine has."""
