"""How a Redis is named: what is taken, and what is refused with the remedy."""

from pathlib import Path

import pytest

from defender.replicas.redis.client import BadUrl, PasswordFile, RedisAddress, connect, parsed


@pytest.mark.parametrize(
    "url",
    [
        "redis://10.0.0.1:6379",
        "rediss://redis.infra/2",
        "unix:///run/redis.sock",
        "redis+sentinel://a:26379,b:26379,[::1]:26379/main",
        "rediss+sentinel://a/main/1",
    ],
)
def test_every_way_to_a_redis_is_understood(url: str) -> None:
    assert parsed(url).scheme
    assert connect(RedisAddress(url))


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("http://host", "begin with one of redis://"),
        ("host:6379", "begin with one of redis://"),
        ("redis://", "names no host"),
        ("redis://:secret@host", "put it into a file"),
        ("redis://host/db1", "'db1' is no number of a database"),
        ("redis://host:port", "host:port"),
        ("unix://", "needs the path of a socket"),
        ("redis+sentinel://a:26379", "names no master"),
        ("redis://[::1", "no address of a Redis: Invalid IPv6 URL"),
        ("redis+sentinel://a:x/main", "'a:x' is no HOST:PORT of a Sentinel"),
    ],
)
def test_a_wrong_address_is_refused_and_tells_no_password(url: str, says: str) -> None:
    with pytest.raises(BadUrl) as refused:
        parsed(url)
    assert says in str(refused.value)
    assert "secret" not in str(refused.value)


def test_the_password_is_read_for_each_connection(tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.write_text("first\n")
    password = PasswordFile(file)
    assert password.get_credentials() == ("first",)
    file.write_text("second\n")
    assert password.get_credentials() == ("second",)
    assert PasswordFile(file, "kube").get_credentials() == ("kube", "second")
