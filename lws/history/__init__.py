"""What do the histories of all kinds have in common: names, order, what is adopted, raised and pruned?"""
