"""The demo: everything of KubeNode on an embedded API server, with a simulated fleet under it."""
