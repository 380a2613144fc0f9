"""Access to AWS: `clients` and `errors` first; `ports` builds every adapter."""
