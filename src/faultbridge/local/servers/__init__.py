"""The two emulator processes of an embedded stack, and the faults that tests inject into them.

Modules in reading order: `event_plane` runs MiniStack, `compute_plane` runs moto, `fault_injection` stores the faults
of the compute plane's instances and launches, `diagnostics` makes sample outputs of `dcgmi diag`.
"""
