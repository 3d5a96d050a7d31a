"""What is a manager's memory made of?"""
