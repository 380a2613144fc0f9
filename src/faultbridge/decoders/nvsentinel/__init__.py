"""The decoder of NVSentinel: `event` parses health events; `health_events` makes faults of them."""
