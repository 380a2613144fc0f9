"""The decoder of kernel logs, the most frequent and most performance-critical source.

`kernel_log` is the decoder; it also separates crash dumps of an earlier boot. `line_filter` selects the relevant lines.
The modules that read messages are `xid` (Xids with the details of NVLink errors, and SXids) and `host` (all others).
"""
