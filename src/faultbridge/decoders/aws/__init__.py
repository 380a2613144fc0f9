"""The decoders of AWS notices about instances.

`ec2_events` and `health_events` read events in the envelope of `eventbridge`; `ec2_status` reads status checks.
"""
