"""Callbacks: notify the owner or the scheduler of a job that may resume.

Read in this order:

- `job_webhook`: a signed HTTP post
- `slurm_requeue`: requeues or releases the job in Slurm
- `job_topic`: an SNS topic
- `job_annotation`: an annotation of the Kubernetes Job
"""
