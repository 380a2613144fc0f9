"""Drain and resume the nodes of Slurm clusters, and wait for their jobs.

Read `rest` (operations over slurmrestd), `access` (the same on the head node, and the choice), `orchestrator`.
"""
