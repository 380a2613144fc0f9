"""Patches for the differences ("gaps") between AWS and the emulators, whose versions are pinned.

Read `patching` first: it defines `Gap`, replaces private names of an emulator, and lists the modules of each emulator
in the order in which their patches are applied. Each other module patches one subject. Its docstring states for each
gap what AWS does, what the emulator does, and what the patch does. A test asserts that every gap still exists in the
pinned version.

Event plane: `lambdas`, `event_delivery`, `dynamodb`, `cloudformation`. Compute plane: `ec2`, `auto_scaling`,
`systems_manager`, `eks_endpoints`, `hyperpod_clusters`.
"""
