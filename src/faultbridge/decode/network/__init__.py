"""The decoders of network interfaces, RDMA ports and the NVLink fabric.

`link_state` (with `link_text`) and `ethtool_stats` read network interfaces. `infiniband_state` and `rdma_counters` read
RDMA ports, which `rdma_ports`, `rdma_link` and `port_tools` parse. `rate_peers` compares the rates of ports.
`fabric_manager_log` reads the errors of NVSwitches from the records that `fabric_manager_records` parses.
"""
