"""Runs a command of the lab."""

import sys

from tests.lab.command import run

sys.exit(run())
