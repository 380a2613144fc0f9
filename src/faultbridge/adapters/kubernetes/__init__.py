"""Nodes, pods and Jobs of EKS clusters through the Kubernetes API.

Import only `orchestrator`, `connection`, `node_listing`, `node_groups` and `volume_attachments` at module level. The
other modules need lightkube, which is in a Lambda layer that only some functions have.

Read in this order:

- `client`: calls the API with the identity of the AWS credentials
- `connection`: keeps the client of each cluster, and converts its errors to `ProviderFailure`
- `node_client`: finds and patches the Kubernetes node of an instance
- `taints`: the patches that isolate and release a node
- `eviction`: evicts the pods of a node
- `job_client`: annotates Jobs
- `in_cluster`: access to the API from a pod, with the token of its service account
- `object_watch`: lists and watches nodes, events and pods, for the collector
- `orchestrator`: implements `Orchestrator`
- `node_listing`: names, locations and opt-out labels of all nodes
- `node_groups`: the managed node groups of an EKS cluster, read through the EKS API
- `volume_attachments`: the volumes that a storage driver has not detached from a node
"""
