"""Draw the pictures of the documentation as SVG, from texts and figures that tests or real runs have
produced.
"""
