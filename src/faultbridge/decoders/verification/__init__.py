"""Reads the results of the tests that a deep verification runs on an instance.

Read in this order:

- `gpu_processes`: finds the processes that use the GPUs, before the tests start
- `sections`: builds the script that runs the tests, and divides its output into one section per test
- `nccl_tests`: reads the output of `all_reduce_perf`
- `fabric_tests`: reads the output of `fi_pingpong` for each EFA device
- `deep_checks`: decides whether each test passed, by the thresholds of the instance type
- `peer_checks`: decides whether the tests between an instance and its peers passed
"""
