"""The decoders of DCGM: `health` (`health_table`), `metrics`, `nvlink`, `policy_violations`, and `diag`.

`diag` uses `diag_report` and `diag_table`. `texts` names the fault that a message without a number states.
"""
