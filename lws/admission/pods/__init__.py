"""What is added to a pod of a group when it is created?"""
