"""The emulators: `event_plane` (MiniStack), `compute_plane` (moto) and its `fault_injection`."""
