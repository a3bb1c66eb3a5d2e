"""A TCP proxy in front of a broker that holds every frame back for a known time each way, and writes down how long
each produce request was away as its client sees it. Arguments: port, broker's port, seconds each way, log file."""

import asyncio
import json
import struct
import sys
import time

PRODUCE = 0


async def frames(reader, writer, hold_s, note):
    """Frames in order, each `hold_s` after it came; the next one does not wait for that."""
    queue = asyncio.Queue()

    async def deliver():
        while True:
            due_s, frame = await queue.get()
            await asyncio.sleep(due_s - time.monotonic())
            writer.write(frame)
            note(frame, sent=True)

    task = asyncio.create_task(deliver())
    try:
        while True:
            head = await reader.readexactly(4)
            frame = head + await reader.readexactly(struct.unpack(">I", head)[0])
            note(frame, sent=False)
            queue.put_nowait((time.monotonic() + hold_s, frame))
    except (asyncio.IncompleteReadError, ConnectionError):
        pass
    finally:
        task.cancel()
        writer.close()


async def main():
    port, broker, hold_s, path = int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]), sys.argv[4]
    log = open(path, "w", buffering=1)

    async def serve(reader, writer):
        away = {}

        def asked(frame, sent):
            key, _, correlation = struct.unpack_from(">hhi", frame, 4)
            if key == PRODUCE and not sent:
                away[correlation] = time.monotonic()

        def answered(frame, sent):
            (correlation,) = struct.unpack_from(">i", frame, 4)
            if sent and correlation in away:
                log.write(json.dumps({"at": time.time(), "away": time.monotonic() - away.pop(correlation)}) + "\n")

        far_reader, far_writer = await asyncio.open_connection("127.0.0.1", broker)
        await asyncio.gather(frames(reader, far_writer, hold_s, asked), frames(far_reader, writer, hold_s, answered))

    server = await asyncio.start_server(serve, "127.0.0.1", port, limit=1 << 20)
    print(port, flush=True)
    async with server:
        await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main())
