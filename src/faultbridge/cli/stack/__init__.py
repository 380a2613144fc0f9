"""Find the stack of a command (`locate`), and create its services and its options (`session`)."""
