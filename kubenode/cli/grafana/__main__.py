import sys

from kubenode.cli.grafana import main

sys.exit(main(sys.argv[1:]))
