"""The decoders of network interfaces, RDMA ports and the NVLink fabric.

`link_state` reads links and counters of network interfaces, and compares the rates of ports. `rdma` reads the states
and counters of RDMA ports. `fabric_manager_log` reads errors of NVSwitches and of the fabric manager.
"""
