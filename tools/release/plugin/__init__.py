"""What stands in the archive that krew installs; imports nothing of ours."""
