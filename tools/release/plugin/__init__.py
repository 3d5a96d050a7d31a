"""Files of the archive that krew installs. They import no other file of this repository."""
