"""How services are built from ports and settings.

Reading order:

- `installation`: the class `Installation` (ports, settings, and what nearly every service shares), and `once`.
- `services`: wires the services that several functions or commands use: registration and heartbeats, limits, repairs
  and orders, and jobs.

The services of one Lambda function alone are wired in the module of its entry point, by a function `wire_...`. Tests,
commands and the simulation call the same functions, with an `Installation` of their own.
"""
