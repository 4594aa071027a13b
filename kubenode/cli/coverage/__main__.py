import sys

from kubenode.cli.coverage import main

sys.exit(main(sys.argv[1:]))
