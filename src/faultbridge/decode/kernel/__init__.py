"""The decoder of kernel logs, the most frequent and most performance-critical source.

`kernel_log` is the decoder. `line_filter` selects the relevant lines by the phrases in `phrases`. `line_parts` splits a
line into messages, `pstore` separates crash dumps of an earlier boot, and `human_times` completes the times of `dmesg
-H`. The modules that read messages are `xid` (with `nvlink` for NVLink details), `sxid`, `pcie` and
`host` (with `firmware_report`, and with the rules of `host_rules`, `disk_rules` and `os_rules`, which `rule` defines).
"""
