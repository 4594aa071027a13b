"""Chooses the store for a setting: a folder, or `s3://BUCKET/PREFIX`."""

from pathlib import Path
from urllib.parse import urlsplit

from remedy.bundles.folder import FolderStore
from remedy.bundles.port import BundleStore


class BadPlace(ValueError):
    """The setting is invalid; the text names its value and the valid forms."""


def store_at(place: str, endpoint: str = "") -> BundleStore:
    """Return the store. `endpoint` is for S3 only. Raises BadPlace."""
    parts = urlsplit(place)
    if parts.scheme == "s3":
        if not parts.netloc:
            raise BadPlace(f"{place!r} names no bucket: write s3://BUCKET or s3://BUCKET/PREFIX")
        return _s3(parts.netloc, parts.path.strip("/"), endpoint)
    if parts.scheme or not place.startswith("/"):
        raise BadPlace(f"{place!r}: write the full path of a folder, or s3://BUCKET/PREFIX")
    if endpoint:
        raise BadPlace(f"an endpoint is for s3:// alone, and {place!r} is a folder")
    return FolderStore(Path(place))


def _s3(bucket: str, prefix: str, endpoint: str) -> BundleStore:
    try:
        from remedy.bundles.s3 import S3Store
    except ImportError as error:
        raise BadPlace("s3:// needs boto3: install kubenode[aws]") from error
    return S3Store(bucket, f"{prefix}/" if prefix else "", endpoint)
