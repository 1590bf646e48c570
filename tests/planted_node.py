"""A real node with a planted bug in it: python -m tests.planted_node BUG serve ..."""

from __future__ import annotations

import sys

from goblin_raft.cli import main
from tests.planted_bugs import BUGS, plant

if __name__ == "__main__":
    if len(sys.argv) < 3 or sys.argv[1] not in BUGS:
        sys.exit(f"usage: python -m tests.planted_node BUG serve ...; BUG: {', '.join(BUGS)}")
    plant(sys.argv[1])
    sys.exit(main(sys.argv[2:]))
