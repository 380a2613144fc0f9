"""The commands, one folder for each subject. `faultbridge.cli.app` lists them.

Reading order: `offline` (needs no stack), `embedded` (starts a stack on this machine), `records` (sends, audits and
verifies records), `fleet` (clusters, nodes, cases and jobs), `policy` (the repair policy). `options` defines options
that several commands share.
"""
