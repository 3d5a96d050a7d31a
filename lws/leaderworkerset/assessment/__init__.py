"""The assessment of a set, with which its plan and the commands begin."""
