"""Scripts that run inside the image's build, where only the standard library exists."""
