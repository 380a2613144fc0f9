"""What Lambda hands over, turned into what the services take: one module a function, one printed line a call."""
