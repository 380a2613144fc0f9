"""Sources of log lines, one file each: a new one needs no other file.

A module has `SOURCE`, a `LineSource` whose rules name the real line that each of them must match. The name of the
source is the name of the module, with hyphens: `device_plugin_log` is `device-plugin-log`.
"""
