"""The decoders of SageMaker HyperPod.

`agent_log` reads the log of the health monitoring agent. `events` reads EventBridge events, and uses `repair_events`
for the repairs that HyperPod does itself. `launch_failures` reads why an instance did not start. `recommendations` maps
the conditions and actions of HyperPod to fault codes.
"""
