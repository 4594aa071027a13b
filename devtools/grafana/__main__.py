import sys

from devtools.grafana import main

sys.exit(main(sys.argv[1:]))
