import sys

from kubenode.cli.metrics_reference import main

sys.exit(main(sys.argv[1:]))
