"""`python -m agent`, as the systemd unit runs it."""

import sys

from agent.main import main

sys.exit(main())
