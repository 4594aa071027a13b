"""Files of components: whole, or the keys of ours in a file that others write too."""
