"""Patches for the differences ("gaps") between AWS and the emulators, whose versions are pinned.

Read `patching` first: it defines `Gap`, replaces private names of an emulator, and lists the modules of each emulator
in the order in which their patches are applied. Each other module patches one subject. Its docstring states for each
gap what AWS does, what the emulator does, and what the patch does. A test asserts that every gap still exists in the
pinned version.

Event plane: `event_delivery`, `streams`, `dynamodb_queries`, `provisioned_settings`, `stack_updates`, `lambda_workers`,
`lambda_errors`. Compute plane: `launches`, `fleets`, `auto_scaling`, `systems_manager`, `ec2_listings`,
`eks_endpoints`, `hyperpod_clusters`.
"""
