"""Which series does a manager serve, subject by subject?"""
