"""What keeps work off a node, one module a kind of cluster."""
