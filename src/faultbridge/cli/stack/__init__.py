"""Find the stack of a command (`locate`), create its services (`session`), add its options (`command`)."""
