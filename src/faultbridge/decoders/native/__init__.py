"""The decoders of Faultbridge's own formats: `heartbeat`, and `normalized` faults and clears."""
