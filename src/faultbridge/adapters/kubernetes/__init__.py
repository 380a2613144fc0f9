"""Nodes, pods and Jobs of EKS clusters through the Kubernetes API.

Import only `orchestrator`, `connection`, `node_listing`, `node_groups` and `volume_attachments` at module level. The
other modules need lightkube, which is in a Lambda layer that only some functions have.

Read in this order:

- `client`: calls the API with the identity of the AWS credentials. Annotates Jobs. Access to the API from a pod, with
  the token of its service account
- `orchestrator`: keeps the client of each cluster, and converts its errors to `ProviderFailure`. Implements
  `Orchestrator`. Names, locations and opt-out labels of all nodes. The volumes that a storage driver has not detached
  from a node
- `nodes`: finds and patches the Kubernetes node of an instance. The patches that isolate and release a node. Evicts
  the pods of a node
- `object_watch`: lists and watches nodes, events and pods, for the collector
- `adapters.ec2.inventory`: the managed node groups of an EKS cluster, read through the EKS API
"""
