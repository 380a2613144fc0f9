"""The decoders of SageMaker HyperPod.

`agent_log` reads the health agent's log and `events` reads EventBridge events, with `repair_events` for HyperPod's own
repairs. `launch_failures` reads why an instance did not start.
`recommendations` maps HyperPod's conditions and actions to fault codes.
"""
