"""The demo: all of KubeNode on an embedded API server with a simulated fleet."""
