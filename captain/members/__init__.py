"""Member clusters: their credentials, their connections and what probes observe of them."""
