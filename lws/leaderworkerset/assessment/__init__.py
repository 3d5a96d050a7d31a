"""How does a set stand: whose is its StatefulSet, which revision is wanted, where is its rollout?"""
