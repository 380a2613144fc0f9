"""Results of the tests that a deep verification runs on an instance.

Read in this order:

- `sections`: the script that runs the tests, and its output cut into one section for each test
- `nccl_tests`: the output of `all_reduce_perf`
- `fabric_tests`: the output of `fi_pingpong` for each EFA device
- `deep_checks`: the verdict of each test for an instance type
- `peer_checks`: the verdict of the tests between an instance and its peers
"""
