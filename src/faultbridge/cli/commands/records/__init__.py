"""Commands for raw records, and for the record of entries that Faultbridge keeps.

Reading order: `send`, `agent`, `collect`, `webhook`, `audit`, `rejects`, `timeline`, `causes` (`timeline --cause`),
`report`, `console`, `verify`, `maintenance` (the commands `redrive`, `recover` and `erase`).
"""
