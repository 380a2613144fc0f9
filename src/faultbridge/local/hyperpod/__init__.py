"""A fake of SageMaker HyperPod: the nodes of clusters, and the calls that replace, reboot and check them.

Modules in reading order: `cluster` holds the nodes of one cluster and their transitions, `operations` answers the calls
of the SageMaker API. The contract is AWS's documentation: at most 25 nodes a call, a result for each node, events in
clusters with continuous provisioning. How long a transition takes is a setting of the fake.
"""
