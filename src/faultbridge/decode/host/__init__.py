"""The decoders of tools that report about the devices of a host.

`disk_health` reads smartctl, `nvme smart-log` and software RAID, `pci_devices` lspci. `bmc_events` reads the event
log of a management controller (IPMI and Redfish). `neuron_monitor` reads the counters of AWS Neuron devices.
"""
