"""Reads Avro values with the Avro project's own library: a line of JSON in, a line of JSON out.

In: {"schema": "...", "hex": "..."}. Out: {"value": ..., "rest": bytes left over} or {"error": "..."}.
"""
import datetime
import decimal
import io
import json
import sys
import uuid
import warnings

import avro.io
import avro.schema

warnings.simplefilter("ignore")  # logical types that this library does not know are read as what they are made of
decimal.getcontext().prec = 100


def plain(value):
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, (datetime.date, datetime.time)):
        return value.isoformat()
    if isinstance(value, (decimal.Decimal, uuid.UUID)):
        return str(value)
    raise TypeError(repr(value))


for line in sys.stdin:
    try:
        question = json.loads(line)
        schema = avro.schema.parse(question["schema"])
        source = io.BytesIO(bytes.fromhex(question["hex"]))
        value = avro.io.DatumReader(schema).read(avro.io.BinaryDecoder(source))
        answer = json.dumps({"value": value, "rest": len(source.read())}, default=plain)
    except Exception as error:  # whatever it is, the test shows it
        answer = json.dumps({"error": f"{type(error).__name__}: {error}"})
    print(answer, flush=True)
