"""Slurm clusters: drain and resume their nodes, and wait for their jobs.

Read in this order:

- `operations`: what the orchestrator needs from Slurm
- `scontrol`: Slurm's commands, as lists of words, and their output
- `head_node`: runs such commands on the head node through SSM
- `https_request`, `rest_answers`, `rest`: the same operations over slurmrestd
- `access`: which of both ways a registered cluster uses
- `orchestrator`: the Orchestrator port
"""
