"""The decoders of DCGM: `health`, `metrics`, `nvlink`, `policy_violations`, `diag` (`diag_report`, `diag_table`)."""
