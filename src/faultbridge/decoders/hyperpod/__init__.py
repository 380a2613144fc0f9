"""The decoders of SageMaker HyperPod.

`agent_log` reads the health agent's log and `events` reads EventBridge events, with `repair_events` for HyperPod's own
repairs. `recommendations` maps HyperPod's conditions and actions to fault codes.
"""
