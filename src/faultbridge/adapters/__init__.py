"""Adapters: implementations of Faultbridge's interfaces on AWS, Kubernetes, Slurm and PagerDuty.

Apart from the node agent, only these modules call AWS. Read in this order:

- `aws`: clients, credentials, error conversion, and `AwsPorts`, which builds every adapter
- `dynamodb`: the single table
- `objects`: S3, Firehose, and a local copy of the archive
- `messaging`: EventBridge, SQS, Step Functions, delivery receipts
- `compute`: EC2, Auto Scaling, HyperPod, and commands on instances through SSM
- `volumes`: EBS volumes of EC2 instances and HyperPod nodes
- `kubernetes`: nodes and pods of EKS clusters
- `slurm`: nodes and jobs of Slurm clusters
- `paging`: SNS, PagerDuty and chats
- `callbacks`: webhooks and schedulers, for jobs that may resume
- `capacity`: EC2 reservations and capacity blocks for a successor
- `verification`: verification of an instance together with a peer
- `call_results`: Faultbridge errors converted to failed call results
- `limited_connection`: connections to HTTP servers with a limit on the time of a whole request
- `extensions`: adapters that other installed distributions provide
- `clock`, `telemetry`: the system clock; metrics and logs
"""
