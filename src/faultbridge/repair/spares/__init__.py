"""spares."""
