"""Which change wakes which pass?"""
