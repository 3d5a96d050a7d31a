"""How are sets changed by commands?"""
