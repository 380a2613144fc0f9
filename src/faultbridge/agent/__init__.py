"""The node agent: reads logs, runs probes, and sends both as raw records to the queue of ingest.

It runs on production GPU nodes, so its use of CPU, memory and disk is limited (`resource_limits`), and it imports only
the standard library. Reading order: `__main__` (command line), `settings`, `agent` (main loop), `host` (clocks and
identity), `resource_limits`; inputs: `log_follower`, `kernel_log`, `journal`, `cursors`, `urgency`, `probes`,
`probe_commands`, `child_processes`, `interface_statistics`, `unchanged_output`, `value_log`, `drop_folder`; output:
`heartbeat` and the folder `delivery`.
"""
