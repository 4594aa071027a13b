"""Messages to the person who can help an agent to its certificate. Pure functions."""

from agent.identity.pem import Validity, utc


def lost(agent: str, token_file: str, known: Validity) -> str:
    return (
        f"the API server does not take the certificate, which ends at {utc(known.ends)},"
        f" and there is no bootstrap token: {_describe_reissue(agent, token_file)}"
    )


def no_token(agent: str, token_file: str) -> str:
    where = f"{token_file} is missing or empty" if token_file else "bootstrap_token_file is not set"
    return (
        f"there is no certificate and {where}: write what `kubenode machine token {agent}`"
        " prints into it"
    )


def refused(agent: str, token_file: str) -> str:
    return (
        f"the API server refuses the token in {token_file}: it was revoked or has expired;"
        f" {_describe_reissue(agent, token_file)}"
    )


def _describe_reissue(agent: str, token_file: str) -> str:
    return (
        f"say `kubenode machine reissue {agent}` and write what `kubenode machine token {agent}`"
        f" prints into {token_file or 'bootstrap_token_file'}"
    )
