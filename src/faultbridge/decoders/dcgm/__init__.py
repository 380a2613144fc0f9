"""The decoders of DCGM: `health` (`health_table`), `metrics`, `nvlink`, `policy_violations`, and `diag`.

`diag` uses `diag_report` and `diag_table`. `texts` finds the fault code of a DCGM message that has no error number.
"""
