"""What is the history of a set, and which revision does it want?"""
