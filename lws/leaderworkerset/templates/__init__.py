"""What are the objects of a set built from?"""
