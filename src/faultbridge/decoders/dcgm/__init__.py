"""The decoders of DCGM: `health`, `metrics`, `policy_violations`, `diag` (with `diag_report`)."""
