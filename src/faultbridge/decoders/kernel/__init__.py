"""The decoder of kernel logs, the most frequent and most performance-critical source.

`kernel_log` is the decoder. `line_filter` selects the relevant lines. The readers are `xid` (with `nvlink` for NVLink
details), `sxid`, `driver_messages`, `pcie` and `host` (with the tables `host_rules`, `disk_rules` and `os_rules`).
"""
