"""Pictures of the documentation: SVG, drawn from text and figures that tests or real runs have left."""
