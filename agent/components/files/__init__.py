"""Files of components: whole files, or our keys in a file that others write too."""
