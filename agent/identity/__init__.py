"""Who the agent is: a key made on this host, and a certificate for it that is renewed in time.

    no certificate yet   a bootstrap token asks for the first one
    two thirds over      the agent asks for the next one with the one it has
    expired while off    a bootstrap token asks once more, if a person gave a new one

What was asked for is on disk before it is asked, so a kill at any point goes on where it was. A new
certificate is used once the API server has taken it; until then the old one is.
"""
