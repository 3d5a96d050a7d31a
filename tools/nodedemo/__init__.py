"""`make demo NODE=real`: the product as users install it, on a node where pods are processes."""
