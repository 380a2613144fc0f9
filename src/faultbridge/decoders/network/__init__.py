"""The decoders of network interfaces, RDMA ports and the NVLink fabric.

`link_state` and `ethtool_stats` read network interfaces. `infiniband_state` and `rdma_counters` read RDMA ports, which
`rdma_ports` parses. `fabric_manager_log` reads errors of NVSwitches.
"""
