"""Samples that the fake compute plane answers with; written for this project, no capture of anybody's machine."""
