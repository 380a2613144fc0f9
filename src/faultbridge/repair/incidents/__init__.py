"""Incidents: when many nodes fail for one shared cause, their repairs wait and one page is sent.

Read in this order: `correlate` opens, changes and closes incidents, and makes cases wait for them; `changes` commits
incidents with their holds and entries, and executes operators' orders; `held` absorbs and releases cases. The rules
without I/O are in `faultbridge.decide.correlate`. Tests: tests/scenarios/incidents.
"""
