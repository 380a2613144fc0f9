"""The node agent: sends log lines and probe output of a GPU node to the queue of raw records.

The agent runs on production GPU nodes. Its use of CPU, memory and disk is therefore limited, and it imports only the
standard library and modules of Faultbridge. Read in this order:

- `__main__`, `settings`, `agent`: command line, settings, main loop
- `host`, `resource_limits`: clocks and identity of the host; limits of CPU, memory and disk
- `log_follower`, `kernel_log`, `cursors`: log lines become records
- `probes`, `child_processes`: run the probes of a node
- `unchanged_output`: selects the probe output to send
- `cursors`: stores when counter values were last sent
- `drop_folder`: files that other programs write for the agent
- `agent`, `delivery`: report that the agent runs; send the records
"""
