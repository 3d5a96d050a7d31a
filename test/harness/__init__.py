"""What tests of the running product share: the product itself, and eyes and hands on the cluster."""
