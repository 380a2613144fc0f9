"""Commands for raw records and for the record of entries.

Reading order: `send`, `agent`, `collect`, `webhook`, `audit`, `rejects`, `timeline`, `causes` (`timeline --cause`),
`report`, `console`, `verify`, `maintenance` (redrive, recover, erase).
"""
