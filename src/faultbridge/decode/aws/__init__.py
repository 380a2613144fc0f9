"""The decoders of AWS notices about instances.

`ec2_events` and `health_events` decode EventBridge events, which `ec2_events` reads. `ec2_status` decodes instance
status checks.
"""
