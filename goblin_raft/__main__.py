"""Lets `python -m goblin_raft` stand for the console script; it must not know anything else."""

import sys

from goblin_raft.cli import main

sys.exit(main())
