"""How does a slice get from one revision, or number of groups, to another?"""
