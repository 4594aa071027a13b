"""The life of a Machine: from what is seen of it to its phase, its conditions and one act."""
