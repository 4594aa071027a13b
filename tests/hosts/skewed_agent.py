"""The agent on a host whose clock is wrong by SKEW_SECONDS. Runs in a disposable host, which
shares the clock of the machine that runs the tests.
"""

import os
import sys
from datetime import datetime, timedelta

from agent.main import main
from kubenode.runtime.clock import SystemClock

SKEW = timedelta(seconds=float(os.environ["SKEW_SECONDS"]))
true_now = SystemClock.now


def now(self: SystemClock) -> datetime:
    return true_now(self) + SKEW


SystemClock.now = now  # type: ignore[method-assign]
sys.exit(main())
