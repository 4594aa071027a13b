"""The API of KubeNode: its custom resources as models. Pure: no I/O, no clock."""
