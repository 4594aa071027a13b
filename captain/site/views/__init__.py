"""Views: the parts of Captain's pages. Pure."""
