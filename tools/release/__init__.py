"""`make release`: every artifact of a release, made from the files of the repository into dist/."""
