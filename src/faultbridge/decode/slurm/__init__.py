"""The decoder of Slurm nodes: `node_state` parses Slurm's output and finds the faults."""
