"""Build the documentation as one site from docs/ and the files of the repository to which docs/ links."""
