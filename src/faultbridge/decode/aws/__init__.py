"""The decoders of AWS notices about instances.

`ec2_events` and `health_events` decode EventBridge events; `eventbridge` reads the fields that both have. `ec2_status`
decodes instance status checks.
"""
