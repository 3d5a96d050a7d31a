"""The documentation as one site: docs/, and the files of the repository that it links to."""
