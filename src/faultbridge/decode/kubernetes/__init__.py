"""The decoders of Kubernetes nodes, node-problem-detector and the EKS node monitoring agent.

`node_objects` reads nodes and events in each output format, and `node_conditions` translates them into faults.
"""
