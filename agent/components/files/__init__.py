"""Files of components: whole files, or the component's keys in a file that others write too."""
