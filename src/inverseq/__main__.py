"""``python -m inverseq`` is ``inverseq``."""

import sys

from inverseq.cli import main

sys.exit(main())
