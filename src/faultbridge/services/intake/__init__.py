"""Intake: doors for what cannot put records on the queue itself; nothing is decoded here."""
