"""Measure the messages of several processes, by their size.

The processes run on this machine and send through its own network, so that other machines are
slower by their latency. Each message is the sums of one round, eight bytes a number.
"""

import argparse
import json
import socket
import statistics
import subprocess
import sys
import time

from dpbt.cli.shared import InputError
from experiments.common import commands

SIZES = (64, 448, 4096, 32768)
"""How many sums a message has: leaves times classes, and the bins of histograms."""

REPEATS = 50


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    commands.add_count(parser, "--processes", 2, "processes on this machine")
    commands.add_shared(parser, json="print one JSON object")


def run(options: argparse.Namespace) -> None:
    """Start the processes, and print what the first one measured.

    Raises:
        InputError: if a process fails.
    """
    with socket.socket() as free:
        free.bind(("localhost", 0))
        where = f"localhost:{free.getsockname()[1]}"
    command = [sys.executable, "-m", "experiments.messages", where, str(options.processes)]
    started = [
        subprocess.Popen([*command, str(number)], stdout=subprocess.PIPE, text=True)
        for number in range(options.processes)
    ]
    said = [process.communicate()[0] for process in started]
    if any(process.returncode for process in started):
        raise InputError("a process ended with an error; it is above")

    found = json.loads(said[0].splitlines()[-1])
    if options.json:
        print(json.dumps(found))
        return
    for size, seconds in found["seconds"].items():
        bytes_sent = 8 * int(size)
        print(f"{found['processes']} processes, {bytes_sent} bytes each: {1e3 * seconds:.2f} ms")


def measured(where: str, count: int, number: int) -> dict:
    """The median seconds of a message of each size, as one process sees them."""
    import jax
    import numpy as np

    from dpbt.training import processes

    jax.distributed.initialize(where, count, number)
    seconds = {}
    for size in SIZES:
        sums = {"sums": np.full(size, number + 2**40, np.int64)}
        processes.summed(sums)  # compiles
        times = []
        for _ in range(REPEATS):
            start = time.perf_counter()
            processes.summed(sums)
            times.append(time.perf_counter() - start)
        seconds[str(size)] = statistics.median(times)
    return {"processes": count, "seconds": seconds}


if __name__ == "__main__":
    print(json.dumps(measured(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))))
