"""Builders and constants that several tests of this folder use."""

from __future__ import annotations

GOOD = """
rules:
  - name: lost-gpu
    match: {codes: [xid.79, "smi.*"], components: [gpu], clusters: [train-*]}
    severity: fatal
    action: replace_node
    wait_seconds: 90s
    repair_actions: [replace_node]
  - name: ask-an-operator
    match: {severities: [fatal], actions: [contact_support]}
    isolate: false
    repair_actions: []
limits:
  concurrent: 4
  act_within: 2h
  launch_deadline: 1h30m
"""

NESTED = """
breakers:
  - {scope: cluster, nodes: 10, percent: 15, quiet: 15m, trial: 2}
  - {scope: domain, nodes: 4, percent: 50}
rules:
  - name: often
    match: {codes: [xid.63], count: 3, hours: 6, sources: [kernel-log], instance_types: ["p5*"]}
    approval: [replace_node]
    approval_deadline: 4h
    windows:
      - {cron: "0 22 * * mon-fri", duration: 6h, zone: Europe/Berlin}
    verify_level: 4
    release_without_capacity: false
    orchestrator_unreachable: proceed
    dry_run: true
limits: {orchestrator_timeout: 15m}
"""
