"""The decoders of what a host's tools report about its devices.

`disk_health` reads smartctl and `nvme smart-log`, `pci_devices` lspci, `bmc_events` the log of a management controller
(IPMI, with `freeipmi` for that tool's listing, and Redfish), and `neuron_monitor` the counters of AWS Neuron devices.
"""
