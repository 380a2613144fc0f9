"""Adapters: implementations of Faultbridge's ports on AWS, Kubernetes, Slurm and PagerDuty.

Only these modules, the node agent and the embedded stack call AWS services. Read in this order:

- `aws`: clients, errors, table, buckets, bus, queues, executions, receipts, metrics; `aws.ports` builds every adapter
- `ec2`, `hyperpod`: instances, capacity, launches, volumes, commands, verification, log bundles
- `kubernetes`, `slurm`: cordon and drain; `call_results` converts their errors to failed results
- `paging`, `callbacks`, `http_post`: SNS, PagerDuty, chats and webhooks; jobs that may resume
- `extensions`: adapters that other installed distributions provide
"""
