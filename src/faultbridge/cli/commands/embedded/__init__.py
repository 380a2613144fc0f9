"""Commands for the embedded stack, which runs on this machine.

Reading order: `up_down` starts and stops the stack, `status` shows its status (or that of a stack on AWS), `demo` runs
a repair in it. `fleet` creates, breaks and heals fake nodes (`fleet_faults` lists the faults), and `env` prints the
variables of the stack. `demo_scenario` contains the steps of the demo, `demo_records` its input, `demo_result` its
checks and final table.
"""
