"""The API of the manager's own configuration file.

In: nothing of the controller. Out: versions of its model, one module each.
"""
