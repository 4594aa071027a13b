"""NodeSets and NodeClasses of the kube-node project, as MachineSets and MachineClasses."""
