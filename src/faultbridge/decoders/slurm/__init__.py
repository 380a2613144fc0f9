"""The decoder of Slurm nodes: `node_listing` parses the output of Slurm, `node_state` finds the faults."""
