"""The bearer token of a request."""


def bearer_token(authorization: str) -> str:
    """Return the token of a header Authorization, "" if its scheme is not Bearer."""
    scheme, _, token = authorization.partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""
