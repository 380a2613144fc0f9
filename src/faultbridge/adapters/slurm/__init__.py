"""Drain and resume the nodes of Slurm clusters, and wait for their jobs.

Read in this order:

- `operations`: what the orchestrator needs from Slurm
- `scontrol`: Slurm's commands, as argument lists, and their output
- `head_node`: runs the commands of `scontrol` on the head node through SSM
- `https_request`, `rest_answers`, `rest`: Slurm operations over slurmrestd
- `access`: selects the head node or slurmrestd for a registered cluster
- `orchestrator`: implements `Orchestrator`
"""
