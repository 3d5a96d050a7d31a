"""leaderworkerset"""
