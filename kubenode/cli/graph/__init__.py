"""`kubenode rules graph`: which signals and facts feed which rules."""
