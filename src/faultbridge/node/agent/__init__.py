"""The node agent: sends log lines and probe output of a GPU node to the queue of raw records.

The agent runs on production GPU nodes. Its use of CPU, memory and disk is therefore limited, and it imports only the
standard library and modules of Faultbridge. Read `settings`, `agent` (the main loop), `log_follower` and `kernel_log`
(lines become records), `cursors`, `probes` and `child_processes`, `unchanged_output`, `drop_folder`, `delivery`,
`host`, `resource_limits`.
"""
