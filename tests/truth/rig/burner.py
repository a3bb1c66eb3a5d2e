"""A process that uses a known share of a core and holds a known memory. Arguments: share, MiB, children that do the
same each."""

import os
import sys
import time


def main():
    share, mib, children = float(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    for _ in range(children):
        if os.fork() == 0:
            break
    parent = os.getppid()
    held = bytearray(os.urandom(1 << 20)) * mib
    print(len(held), flush=True)
    began_s, used_s = time.monotonic(), time.process_time()
    while os.getppid() == parent:
        # What was missed on a busy machine is made up for, so that the share holds over the whole time.
        if time.process_time() - used_s < share * (time.monotonic() - began_s):
            for _ in range(5000):
                pass
        else:
            time.sleep(0.002)


if __name__ == "__main__":
    main()
