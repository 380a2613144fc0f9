"""The decoder of Slurm nodes: `node_listing` parses Slurm's output, and `node_state` finds the faults."""
