"""How does a set get from one revision, or number of groups, to another?"""
