"""`python -m chaos`, which is what cluster/chaos calls."""

from chaos.cli import main

raise SystemExit(main())
