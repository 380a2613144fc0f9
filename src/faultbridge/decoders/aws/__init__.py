"""The decoders of AWS notices about instances.

`ec2_events` and `health_events` read EventBridge events, whose common fields `eventbridge` reads. `ec2_status` reads
instance status checks.
"""
