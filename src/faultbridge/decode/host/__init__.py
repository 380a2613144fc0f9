"""The decoders of tools that report about the devices of a host.

`disk_health` reads smartctl, `nvme smart-log` and software RAID. `devices` reads lspci and the counters of AWS Neuron
devices. `bmc_events` reads the event log of a management controller (IPMI and Redfish).
"""
