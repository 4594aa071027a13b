"""Histograms of the times of stages, which add up over days and groups.

A time in milliseconds counts in a bucket by its 6 highest bits, so a bucket is at most 1/32 wide of
its begin. A percentile is the middle of the bucket that contains the nearest rank: at most ERROR
away from the exact one, in proportion. Times below 64 ms are exact, and times from LONGEST on count
as LONGEST.

The counts of all buckets of all stages are lanes of one integer, so that a sum of histograms is a
sum of integers.
"""

import struct
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence

BITS = 6
HALF = 1 << (BITS - 1)
ERROR = 1 / (2 * HALF)
"""Bound on the relative error of a percentile."""
LONGEST = (1 << 36) - 1
"""Milliseconds, more than two years."""
BUCKETS = HALF * (LONGEST.bit_length() - BITS + 2)
LANE_BYTES = 4
HISTOGRAM_STAGES = ("detect", "permit", "drain", "act", "prove", "heal")
_STAGE_BITS = 8 * LANE_BYTES * BUCKETS


def bucket_of(time: int) -> int:
    """Return the bucket of a time in milliseconds, which must not be negative."""
    time = min(time, LONGEST)
    shift = max(0, time.bit_length() - BITS)
    return shift * HALF + (time >> shift)


def middle_of(bucket: int) -> float:
    """Return the middle of the times that count in a bucket, in milliseconds."""
    shift = max(0, bucket // HALF - 1)
    begin = (bucket - shift * HALF) << shift
    return begin + ((1 << shift) - 1) / 2


def lane_of(stage: int, time: int) -> int:
    """Return the number of the lane that counts a time of a stage."""
    return stage * BUCKETS + bucket_of(time)


def histogram_of(lanes: Counter[int]) -> int:
    """Return the histogram with these counts by lane."""
    counts = [0] * (BUCKETS * len(HISTOGRAM_STAGES))
    for lane, count in lanes.items():
        counts[lane] = count
    return int.from_bytes(struct.pack(f"<{len(counts)}I", *counts), "little")


def percentiles_of(histogram: int, stage: int, percents: Sequence[int]) -> tuple[int, list[float]]:
    """Return the number of times of a stage, and percentiles in milliseconds, none without any."""
    counts = list(_counts(histogram, stage))
    total = sum(count for _, count in counts)
    if not total:
        return 0, []
    return total, [_at_rank(counts, (total * percent + 99) // 100) for percent in percents]


def _at_rank(counts: list[tuple[int, int]], rank: int) -> float:
    for bucket, count in counts:
        rank -= count
        if rank <= 0:
            return middle_of(bucket)
    raise ValueError("the rank is beyond the number of times")


def _counts(histogram: int, stage: int) -> Iterator[tuple[int, int]]:
    lanes = histogram >> (stage * _STAGE_BITS) & ((1 << _STAGE_BITS) - 1)
    counts = struct.unpack(f"<{BUCKETS}I", lanes.to_bytes(LANE_BYTES * BUCKETS, "little"))
    return ((bucket, count) for bucket, count in enumerate(counts) if count)


def pack(histogram: int) -> bytes:
    size = (histogram.bit_length() + 7) // 8
    return zlib.compress(histogram.to_bytes(size, "little"), 1)


def unpack(packed: bytes) -> int:
    return int.from_bytes(zlib.decompress(packed), "little")
