"""Stores bundles in a bucket of AWS or another S3 service; boto3 finds the credentials.

The bucket's lifecycle rule deletes bundles: the operator may write and read, and needs no right to
delete.
"""

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import TYPE_CHECKING

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from remedy.bundles.port import NoBundle, StoreFailed

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

PART = 256 * 1024
_CALLS = Config(connect_timeout=5, read_timeout=30, retries={"mode": "standard", "max_attempts": 3})
_ABSENT = frozenset({"NoSuchKey", "404"})


class S3Store:
    """Implements BundleStore.

    bucket: its name
    prefix: prefix of every key, "" or ending with a slash
    endpoint: `https://...` of another service than AWS, "" for AWS
    """

    def __init__(self, bucket: str, prefix: str = "", endpoint: str = "") -> None:
        self._bucket, self._prefix = bucket, prefix
        self._s3: S3Client = boto3.client("s3", endpoint_url=endpoint or None, config=_CALLS)

    async def put(self, agent: str, name: str, file: Path) -> str:
        key = self._key(agent, name)
        try:
            await asyncio.to_thread(self._s3.upload_file, str(file), self._bucket, key)
        except (BotoCoreError, ClientError, boto3.exceptions.S3UploadFailedError) as error:
            raise StoreFailed(str(error)) from error
        return f"s3://{self._bucket}/{key}"

    async def get(self, agent: str, name: str) -> AsyncGenerator[bytes]:
        key = self._key(agent, name)
        try:
            response = await asyncio.to_thread(self._s3.get_object, Bucket=self._bucket, Key=key)
            with response["Body"] as body:
                while part := await asyncio.to_thread(body.read, PART):
                    yield part
        except ClientError as error:
            if error.response.get("Error", {}).get("Code") in _ABSENT:
                raise NoBundle(f"host {agent} has no bundle {name}") from error
            raise StoreFailed(str(error)) from error
        except BotoCoreError as error:
            raise StoreFailed(str(error)) from error

    async def check(self) -> None:
        try:
            await asyncio.to_thread(self._s3.head_bucket, Bucket=self._bucket)
        except (BotoCoreError, ClientError) as error:
            raise StoreFailed(f"bucket {self._bucket}: {error}") from error

    def _key(self, agent: str, name: str) -> str:
        return f"{self._prefix}{agent}/{name}"
