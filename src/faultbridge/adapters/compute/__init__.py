"""Instances: replace, launch, reset, reboot, verify and list them.

Read in this order:

- `instances`: shared reads of EC2 instances, and their failure domains
- `instance_checks`, `instance_roles`: status checks of an instance, and the roles in instance profiles
- `failures`: failed EC2 calls converted to `ProviderFailure`
- `auto_scaling`, `launch_template`: the Provider port for Auto Scaling groups and for launch templates
- `ec2_fleet`: the Launcher port
- `ssm_commands`: shell commands on instances, with tokens
- `ssm_restart`: the Restarter port (GPU reset, reboot)
- `dcgm_verifier`: the Verifier port
- `log_bundle`: the Collector port
- `ec2_inventory`, `hyperpod_inventory`: the instances of a group
- `hyperpod_cluster`: the calls to SageMaker about one HyperPod cluster
- `hyperpod_status`: the conditions of a whole HyperPod cluster and its groups
- `request_log`: requests that take no client token, each sent at most once
- `hyperpod_provider`, `hyperpod_restart`, `hyperpod_verifier`, `hyperpod_logs`: the ports for HyperPod nodes
"""
