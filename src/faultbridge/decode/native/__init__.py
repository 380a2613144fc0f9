"""The decoders of Faultbridge's own formats: `heartbeat`, and `normalized` for faults and clears."""
