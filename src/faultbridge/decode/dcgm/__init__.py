"""The decoders of DCGM, the NVIDIA tool that monitors and tests GPUs.

`health` reads health reports, `diag` diagnostics, `metrics` dcgm-exporter and `dcgmi dmon`, and `dcgmi` link states,
link errors and policy violations. `texts` translates DCGM's error numbers and texts to fault codes.
"""
