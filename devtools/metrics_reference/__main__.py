import sys

from devtools.metrics_reference import main

sys.exit(main(sys.argv[1:]))
