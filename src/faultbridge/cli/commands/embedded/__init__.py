"""Commands for the embedded stack on this machine.

Reading order: `up_down` starts and stops it, `status` shows it (or a stack on AWS), `demo` runs a repair in it.
`fleet` creates, breaks and heals fake nodes (`fleet_faults` lists the faults), and `env` prints its variables.
`demo_scenario` holds the steps of the demo, `demo_records` its input, `demo_result` its checks and final table.
"""
