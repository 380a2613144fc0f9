"""Commands for raw records that Faultbridge receives, and for the timeline entries that it writes.

Reading order: `send`, `agent`, `collect`, `webhook`, `audit`, `rejects`, `timeline`, `causes` (`timeline --cause`),
`report`, `console`, `verify`, `maintenance` (the commands `redrive`, `recover` and `erase`).
"""
