"""What does the status of a set remember from one manager to the next?"""
