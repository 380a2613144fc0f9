"""The decoders of DCGM, the NVIDIA tool that monitors and tests GPUs.

`health` reads health reports (tables with `health_table`), `metrics` reads dcgm-exporter, `nvlink` reads link states
and errors, and `policy_violations` reads policy violations. `diag` reads diagnostics with `diag_report` and
`diag_table`. `texts` finds the fault code of a DCGM message that has no error number.
"""
