"""What does a set say of itself?"""
