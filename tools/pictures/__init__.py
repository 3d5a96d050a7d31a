"""Draw the pictures of the documentation as SVG, from results of tests and real runs."""
