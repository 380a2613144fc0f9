"""Start, deploy, inspect and stop an embedded stack.

Modules in reading order: `lifecycle` has `up` and `down`; `files` defines the stack's folder and state file;
`emulator_processes` starts the emulators with `processes`; `deployment` builds and deploys with `sam`;
`deployment_check` compares the deployed resources with the template; `fingerprint` detects changes; `status` reports
the status of a stack.
"""
