"""What proves a node good, one module a way to do it."""
