"""Two rule engines behind one port, and the check of one against the other."""
