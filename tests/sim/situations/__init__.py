"""Situations: rare circumstances of a whole run, each drawn from the seed by a random stream of its own.

A seed that draws no situation has the same history as before the situation existed.

- `draw`: which situations a seed has, and the actions that they add. `truth`: facts that the product cannot read.
- Actions: `claims` (claims, forged text, running work), `shortages` (capacity and launches), `changes` (policies,
  modes, restores, clocks, schedules, orders).
"""
