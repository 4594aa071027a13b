"""Batches of the stream over HTTP: what counts as stored, and what is sent again."""

import json
from pathlib import Path

import pytest
from support.receiving import http_receiver
from support.stream_objects import closed_job

from kubenode.runtime.process import CannotStart
from kubenode.runtime.stream.delivery import HttpBatchSender, NotAccepted, StreamReceiver
from kubenode.runtime.stream.derivation import StreamIdentity, job_events

pytestmark = pytest.mark.integration
EVENTS = list(job_events(closed_job(), None, StreamIdentity("prod")))


async def test_batch_arrives_with_its_token_which_may_change(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("first\n")
    async with http_receiver() as receiver:
        sender = HttpBatchSender(StreamReceiver(receiver.url, token))
        await sender.send(EVENTS)
        token.write_text("second\n")
        await sender.send(EVENTS)
        await sender.close()
    assert [headers["Authorization"] for headers, _ in receiver.got] == [
        "Bearer first",
        "Bearer second",
    ]
    assert receiver.got[0][0]["Content-Type"] == "application/cloudevents-batch+json"
    assert [event["id"] for event in json.loads(receiver.got[0][1])] == [
        event.id for event in EVENTS
    ]


@pytest.mark.parametrize(
    ("status", "final"),
    [
        (400, True),
        (413, True),
        (401, False),
        (404, False),
        (429, False),
        (503, False),
        (302, False),
    ],
)
async def test_answer_decides_whether_the_batch_is_sent_again(status: int, final: bool) -> None:
    async with http_receiver() as receiver:
        receiver.answers = [status]
        sender = HttpBatchSender(StreamReceiver(receiver.url))
        with pytest.raises(NotAccepted, match=str(status)) as caught:
            await sender.send(EVENTS)
        await sender.close()
    assert caught.value.final is final
    assert receiver.got == []


async def test_missing_receiver_and_missing_token_are_temporary(tmp_path: Path) -> None:
    async with http_receiver() as receiver:
        url = receiver.url
        sender = HttpBatchSender(StreamReceiver(url, tmp_path / "none"))
        with pytest.raises(NotAccepted, match="none") as caught:
            await sender.send(EVENTS)
        await sender.close()
    assert not caught.value.final
    sender = HttpBatchSender(StreamReceiver(url))
    with pytest.raises(NotAccepted, match="cannot be reached"):
        await sender.send(EVENTS)
    await sender.close()


def test_unreadable_authorities_end_the_start(tmp_path: Path) -> None:
    with pytest.raises(CannotStart, match="--stream-ca-file"):
        HttpBatchSender(StreamReceiver("https://x", ca_file=tmp_path / "none"))
