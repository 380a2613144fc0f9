"""Adapters: implementations of Faultbridge's interfaces on AWS, Kubernetes, Slurm and PagerDuty.

Only these modules, the node agent and the embedded stack call AWS services. Read in this order:

- `aws`: clients, credentials, error conversion, and `AwsPorts`, which builds every adapter
- `aws.dynamodb`: the DynamoDB table in which Faultbridge stores its items
- `aws.objects`: S3, Firehose, and a local copy of the archive
- `aws.messaging`: EventBridge, SQS, Step Functions, delivery receipts
- `ec2.instances`: EC2, Auto Scaling, HyperPod, and commands on instances through SSM
- `ec2.volumes`: EBS volumes of EC2 instances and HyperPod nodes
- `kubernetes`: nodes and pods of EKS clusters
- `slurm`: nodes and jobs of Slurm clusters
- `paging`: SNS, PagerDuty and chats
- `callbacks`: notify the owner or the scheduler of a job that may resume
- `ec2.launch`: EC2 reservations and capacity blocks for a successor
- `ec2.pair_verifier`: verification of an instance together with a peer
- `call_results`: errors of orchestrators and callbacks converted to failed call results
- `http_post`: connections to HTTP servers with a time limit for request and response together
- `extensions`: adapters that other installed distributions provide
- `clock`, `aws.telemetry`: the system clock; metrics and logs
"""
