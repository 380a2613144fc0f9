"""Slurm clusters: drain and resume their nodes, and wait for their jobs.

Read in this order:

- `scontrol`: Slurm's commands, as lists of words, and their output
- `head_node`: runs such commands on the head node through SSM
- `orchestrator`: the Orchestrator port
"""
