"""What runs inside the build of the image: nothing but the standard library is there."""
