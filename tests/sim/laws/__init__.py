"""Laws: what the installation may never do to running work, to operators and to instances, checked during a run.

They are computed from the stored state and from what the fakes record, and call no decision function of the product.

- `law` (the base class), `facts` (what the state of a node says).
- `isolation_budget` (how many nodes may be out of service), `running_work` (diagnostics, repairs, evictions and
  claims), `checkpoints`, `urgent_pages`, `lost_reports`, `instances` (launches, releases and waits for successors),
  `orders`, `breaker_trials`.
- `all_laws`: passes each change and call to every law.
"""
