"""Does this process act, and on what?"""
