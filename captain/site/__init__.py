"""Captain's pages for people: clusters, and releases on their way through them.

- scene: what the pages show, from the caches of Captain.
- views: pure; compute the parts of pages.
- acts, posts: what people do, as `kubenode release` does it, with the rights of the person.
"""
