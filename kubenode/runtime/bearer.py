"""The bearer token of a request."""


def bearer_token(authorization: str) -> str:
    """The token in a header Authorization, "" where there is none of scheme Bearer."""
    scheme, _, token = authorization.partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""
