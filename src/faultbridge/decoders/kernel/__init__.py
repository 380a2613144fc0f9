"""The decoder of kernel logs, the most frequent and most performance-critical source.

`kernel_log` is the decoder. `line_filter` selects the relevant lines by `phrases`, `line_parts` splits a line into
messages, `pstore` separates dumps of an earlier boot, and `human_times` completes the times of `dmesg -H`. The readers
are `xid` (with `nvlink` for NVLink details), `sxid`, `driver_messages`, `pcie` and `host` (with `firmware_report`, and
`rule` for the tables `host_rules`, `disk_rules` and `os_rules`).
"""
