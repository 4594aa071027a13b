"""Identity of the agent: a key made on this host, and a certificate that is renewed in time.

    no certificate yet   a bootstrap token requests the first one
    two thirds over      the agent requests the next one with the current one
    expired while off    a bootstrap token requests one again, if a person provided a new token

Each request is on disk before it is sent, so the agent resumes after a kill at any point. A new
certificate is used after the API server has accepted it, and the old one until then.
"""
