"""The environment of the simulated system: sources, operators, the cloud and providers.

Reading order: `action_plan` (which actions a seed draws), `samples` (the records that sources send), `sources`,
`agents`, `domain_faults`, `growth`, `owner_actions`, `capacity`, `volumes`, `operators` and `cloud_actions` (how each
action is carried out), `environment` (combines all of these actions), `provider_repair` (a provider that replaces its
own instances), `inventory_runs` (when the inventory runs).
"""
