"""Create every artifact of a release in dist/, from the files of the repository: `make release`."""
