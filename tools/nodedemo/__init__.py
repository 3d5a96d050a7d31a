"""Show the product as users install it, on a node where pods are processes: `make demo NODE=real`."""
