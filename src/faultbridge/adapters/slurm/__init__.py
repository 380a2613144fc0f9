"""Drain and resume the nodes of Slurm clusters, and wait for their jobs.

Read in this order:

- `rest`: what the orchestrator needs from Slurm. Slurm operations over slurmrestd
- `access`: Slurm's commands, as argument lists, and their output. Runs the commands of `access` on the head node
  through SSM. Selects the head node or slurmrestd for a registered cluster
- `orchestrator`: implements `Orchestrator`
"""
