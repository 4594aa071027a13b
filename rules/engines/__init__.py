"""Two rule engines behind one port, and the comparison of their answers."""
