"""A fake of SageMaker HyperPod: clusters, their nodes, and calls that replace, reboot and check nodes.

Modules in reading order: `cluster` contains the nodes of one cluster and their transitions, `operations` answers the
calls of the SageMaker API. The fake follows AWS's documentation: at most 25 nodes per call, a result for each node, and
events in clusters with continuous provisioning. The duration of each transition is a setting of the fake.
"""
