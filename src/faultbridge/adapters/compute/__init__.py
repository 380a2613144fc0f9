"""Replace, launch, reset, reboot, verify and list instances.

Read in this order:

- `instances`: shared reads of EC2 instances, and their failure domains
- `instance_checks`, `instance_roles`: status checks of an instance, and the roles in instance profiles
- `failures`: failed AWS calls converted to `ProviderFailure`
- `auto_scaling`, `launch_template`: implement `Provider` for Auto Scaling groups and for launch templates
- `ec2_fleet`: implements `Launcher`
- `ssm_commands`: sends shell commands to instances, and finds a command again by its token
- `ssm_restart`: implements `Restarter` (GPU reset, reboot)
- `dcgm_verifier`: implements `Verifier`
- `log_bundle`: implements `Collector`
- `ec2_inventory`, `hyperpod_inventory`: list the instances of a group
- `hyperpod_cluster`: the calls to SageMaker about one HyperPod cluster
- `hyperpod_status`: the conditions of a whole HyperPod cluster and its groups
- `request_log`: records requests that take no client token, so that no accepted request is sent again
- `hyperpod_provider`, `hyperpod_restart`, `hyperpod_verifier`, `hyperpod_logs`: implement `Provider`, `Restarter`,
  `Verifier` and `Collector` for HyperPod nodes
"""
