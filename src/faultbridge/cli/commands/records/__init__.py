"""Commands for raw records and for the record of entries.

Reading order: `send`, `agent`, `audit`, `rejects`, `timeline`, `verify`, `maintenance` (redrive, recover, erase).
"""
