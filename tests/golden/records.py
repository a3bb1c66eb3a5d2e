"""Writes records.txt: records computed from their definition, not from soakd's code.

Run it by hand (python3 records.py > records.txt) when the definition is changed on purpose. Python's own math is used for
logarithm, exponential and cosine: where its last bit differs from soakd's, no whole number here depends on it.
"""

import math

M64 = (1 << 64) - 1
GOLDEN = 0x9E3779B97F4A7C15
SEED, NAME, PARTITIONS, INTENDED_MS = 42, "main", 4, 1_700_000_000_000
SEQUENCES = [0, 1, 2, 77, 1_000_000_007]
TEXT = b"This part of the value can be compressed: it is always the same "


def mix(z):  # SplitMix64: the number after z
    z = (z + GOLDEN) & M64
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & M64
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & M64
    return z ^ (z >> 31)


class Random:
    def __init__(self, seed, n):
        self.state = mix((seed + n * GOLDEN) & M64)

    def next(self):
        self.state = (self.state + GOLDEN) & M64
        return mix(self.state)

    def unit(self):
        return (self.next() >> 11) / (1 << 53)

    def below(self, bound):
        return self.next() * bound >> 64


def fnv(data):
    h = 0xCBF29CE484222325
    for byte in data:
        h = ((h ^ byte) * 0x100000001B3) & M64
    return h


def murmur2(data):
    m, h = 0x5BD1E995, 0x9747B28C ^ len(data)
    whole = len(data) // 4 * 4
    for i in range(0, whole, 4):
        k = int.from_bytes(data[i : i + 4], "little") * m & 0xFFFFFFFF
        k = (k ^ (k >> 24)) * m & 0xFFFFFFFF
        h = (h * m & 0xFFFFFFFF) ^ k
    if whole < len(data):
        h = (h ^ int.from_bytes(data[whole:], "little")) * m & 0xFFFFFFFF
    h = (h ^ (h >> 13)) * m & 0xFFFFFFFF
    return h ^ (h >> 15)


def partition(key):
    return (murmur2(key) & 0x7FFFFFFF) % PARTITIONS


STREAM = mix(SEED ^ fnv(NAME.encode()))
KEYS, VALUES, TOMBSTONES = (mix(STREAM ^ purpose) for purpose in (1, 2, 3))


def shuffle(bound):
    bits = (bound - 1).bit_length()
    mask, shift = (1 << bits) - 1, max((bits + 1) // 2, 1)
    random = Random(mix(KEYS), bound)
    rounds = [(random.next(), random.next() | 1) for _ in range(3)]

    def apply(x):
        while True:
            for add, factor in rounds:
                x = (x + add) & mask
                x ^= x >> shift
                x = x * factor & mask
            x ^= x >> shift
            if x < bound:
                return x

    return apply


def zipf(ranks, s):  # Hoermann, Derflinger 1996
    def ratio(f, t, near):
        return f(t) / t if abs(t) > 1e-8 else near

    def area(x):
        t = (1 - s) * math.log(x)
        return ratio(math.expm1, t, 1 + t / 2) * math.log(x)

    def height(x):
        return math.exp(-s * math.log(x))

    def cut(a):
        t = max(a * (1 - s), -1.0)
        return math.exp(ratio(math.log1p, t, 1 - t / 2) * a)

    low, high = area(1.5) - 1, area(ranks + 0.5)
    sure = 2 - cut(area(2.5) - height(2))

    def draw(n):
        random = Random(KEYS, n)
        while True:
            a = high + random.unit() * (low - high)
            x = cut(a)
            k = min(max(math.floor(x + 0.5), 1), ranks)
            if k - x <= sure or a >= area(k + 0.5) - height(k):
                return k - 1

    return draw


def hotspot(cardinality, hot_keys, traffic):
    hot = round(hot_keys * cardinality)

    def draw(n):
        random = Random(KEYS, n)
        if random.unit() < traffic:
            return random.below(hot)
        return hot + random.below(cardinality - hot)

    return draw


def uniform(cardinality):
    return lambda n: mix((KEYS + n * GOLDEN) & M64) * cardinality >> 64


def random64(n):
    n = mix((KEYS + n * GOLDEN) & M64)
    while (1 << 63) - (1 << 24) <= n < 1 << 63:
        n = mix((KEYS + n * GOLDEN) & M64)
    return n


def then(draw, permute):
    return lambda n: permute(draw(n))


def binary(size):
    return lambda n: n.to_bytes(max(size, 8), "big")[-size:]


def decimal(n):
    return b"%d" % n


def padded(size):
    return lambda n: b"%0*d" % (size, n)


MILLION = 10**6
KEY_CASES = {
    "sequential": (lambda n: n % 1000, binary(8), 1000),
    "sequential_shuffled": (then(lambda n: n % 1000, shuffle(1000)), decimal, 1000),
    "unique": (lambda n: n, padded(20), None),
    "unique_shuffled": (then(lambda n: n, shuffle(1 << 62)), binary(8), None),
    "uniform": (uniform(1000), binary(4), 1000),
    "uniform_decimal": (uniform(MILLION), decimal, MILLION),
    "uniform_wide": (uniform(1000), binary(20), 1000),
    "zipf": (then(zipf(MILLION, 0.99), shuffle(MILLION)), binary(8), MILLION),
    "zipf_one": (zipf(MILLION, 1.0), decimal, MILLION),
    "zipf_steep": (zipf(1000, 2.5), padded(6), 1000),
    "hotspot": (then(hotspot(MILLION, 0.2, 0.8), shuffle(MILLION)), padded(12), MILLION),
    "random64": (random64, binary(8), None),
    "random64_padded": (random64, padded(20), None),
}


def normal(random):
    one = 1 - random.unit()
    return math.sqrt(-2 * math.log(one)) * math.cos(2 * math.pi * random.unit())


def weighted(random):
    at = random.unit() * 10.0
    return 50 if at < 6.0 else 4500


SIZE_CASES = {
    "fixed": (lambda random: 40, 0.0),
    "uniform": (lambda random: 100 + random.below(301), 0.5),
    "normal": (lambda random: min(max(math.floor(500 + 100 * normal(random) + 0.5), 0), 900), 0.0),
    "weighted": (weighted, 0.25),
}


NOISE = b"".join(Random(mix(VALUES ^ 2), word).next().to_bytes(8, "little") for word in range(512))


def value(n, size, compressibility):
    random = Random(VALUES, n)

    def noise(length):
        mask = random.next().to_bytes(8, "little") * 512
        return bytes(a ^ b for a, b in zip(NOISE[:length], mask))

    head = n.to_bytes(8, "big") + (n % PARTITIONS).to_bytes(4, "big") + INTENDED_MS.to_bytes(8, "big")
    data = b""
    while len(data) < size:
        block, front = min(4096, size - len(data)), head[:size] if not data else b""
        text = min(math.floor(compressibility * block + 0.5), block - len(front))
        data += front + noise(block - len(front) - text) + (TEXT * 64)[:text]
    return data


def main():
    for name, (draw, write, cardinality) in KEY_CASES.items():
        for n in SEQUENCES:
            number = draw(n)
            key = write(number)
            print("key", name, n, partition(key), number, key.hex())
        found, number = {}, (1 << 63) - 1 if cardinality is None else cardinality
        while len(found) < PARTITIONS:
            found.setdefault(partition(write(number)), number)
            number += -1 if cardinality is None else 1
        for p in range(PARTITIONS):
            print("marker", name, p, found[p], write(found[p]).hex())
    for name, (draw, compressibility) in SIZE_CASES.items():
        for n in SEQUENCES:
            data = value(n, draw(Random(mix(VALUES ^ 1), n)), compressibility)
            print("value", name, n, len(data), f"{fnv(data):016x}")
    for n in range(100):
        if Random(TOMBSTONES, n).unit() < 0.1:
            print("tombstone", n)


main()
