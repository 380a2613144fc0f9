"""The decoders of SageMaker HyperPod.

`agent_log` reads the log of the health monitoring agent. `events` reads EventBridge events, the repairs that HyperPod
does itself, and why an instance did not start.
"""
