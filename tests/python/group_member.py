"""Members of groups, consumers of kafka-python, in the lines that all member programs speak: see tests/tests/kafka/lines.rs.

With arguments, NAME TOPICS KEY=VALUE..., it is one member, and ends when that does. Without, it is the host of many:
"new NAME TOPICS KEY=VALUE..." makes one, "NAME COMMAND" tells it something, and each line of its begins with its name. Either
ends at once when its input does.
"""

import logging
import os
import queue
import sys
import threading
import time

from kafka import KafkaConsumer
from kafka.consumer.subscription_state import ConsumerRebalanceListener
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from kafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
from kafka.errors import KafkaError

# Longer than other clients' members poll. Where a leader joins again because it has learned more of its topics, and a poll's time is
# over before the answer comes, kafka-python 3.0.12 forgets that it is joining: it never takes up the assignment, and sends no
# heartbeats until it is expelled, and after.
POLL_MS = 2000

# The pause after an error that may pass.
PAUSE_S = 0.05

# What the client calls the strategies that other clients know by the names of their protocols.
STRATEGIES = {
    strategy.name: strategy
    for strategy in (
        RangePartitionAssignor,
        RoundRobinPartitionAssignor,
        StickyPartitionAssignor,
        CooperativeStickyAssignor,
    )
}

# Properties whose values are no numbers.
TEXTS = {"group.id", "client.id", "client.rack", "group.instance.id", "auto.offset.reset"}


def now():
    """The time of the boot-time clock in microseconds."""
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1000


class Output:
    """What a member says. Lines are written whole, and at once."""

    writing = threading.Lock()

    def __init__(self, prefix):
        self.prefix = prefix

    def say(self, kind, rest=""):
        self.write([f"{kind} {now()} {rest}".rstrip().replace("\n", " ")])

    def records(self, batches, given):
        self.write(
            f"record {given} {r.topic} {r.partition} {r.offset} {r.value.decode()}"
            for batch in batches.values()
            for r in batch
        )

    def write(self, lines):
        text = "".join(f"{self.prefix}{line}\n" for line in lines)
        with self.writing:
            sys.stdout.write(text)
            sys.stdout.flush()


def word(partitions):
    """Partitions as a word."""
    topics = {}
    for topic, partition in sorted(partitions):
        topics.setdefault(topic, []).append(str(partition))
    return ";".join(f"{topic}:{','.join(numbers)}" for topic, numbers in topics.items()) or "-"


def settings(properties):
    """Kafka's properties as the client takes them."""
    taken = {}
    for key, value in properties.items():
        if key == "partition.assignment.strategy":
            value = [STRATEGIES[name] for name in value.split(",")]
        elif key == "bootstrap.servers":
            value = value.split(",")
        elif key == "enable.auto.commit":
            value = value == "true"
        elif key not in TEXTS:
            value = int(value)
        taken[key.replace(".", "_")] = value
    return taken


class Member(ConsumerRebalanceListener):
    """A consumer, what it is told and what it says."""

    def __init__(self, arguments, output):
        self.topics = arguments[1].split(",")
        properties = dict(argument.split("=", 1) for argument in arguments[2:])
        never = properties.pop("member.commit", None) == "never"
        self.commits = not never and properties.get("enable.auto.commit") == "false"
        self.properties = properties
        self.output = output
        self.commands = queue.SimpleQueue()
        self.started = False
        self.pace = 0
        self.owned = set()

    def run(self):
        """Lives until it is told to stop, which is well, or can't go on."""
        try:
            self.consumer = KafkaConsumer(**settings(self.properties))
            self.output.say("ready")
            while self.obey():
                self.poll()
            self.consumer.close()
            self.output.say("closed")
            return True
        except Exception as e:  # pylint: disable=broad-except
            logging.exception("the member ends")
            self.output.say("error", f"fatal: {e!r}")
            return False

    def obey(self):
        """Obeys all commands; before "start" they are waited for. Whether to go on."""
        while not self.started or not self.commands.empty():
            match self.commands.get().split(" "):
                case ["start"]:
                    self.consumer.subscribe(self.topics, listener=self)
                    self.started = True
                case ["stop"]:
                    return False
                case ["busy", milliseconds]:
                    self.output.say("event", "busy")
                    time.sleep(int(milliseconds) / 1000)
                case ["pace", milliseconds]:
                    self.pace = int(milliseconds) / 1000
                case ["subscribe", topics]:
                    self.consumer.subscribe(topics.split(","), listener=self)
                case command:
                    self.output.say("error", f"can't {' '.join(command)}")
        return True

    def poll(self):
        try:
            batches = self.consumer.poll(timeout_ms=POLL_MS)
            given = now()
            if not batches:
                return
            self.output.records(batches, given)
            if self.commits:
                self.consumer.commit()
            time.sleep(self.pace)
        except KafkaError as e:
            self.output.say("error", repr(e))
            if not e.retriable:
                raise
            time.sleep(PAUSE_S)

    # Called on the client's own thread, while the member's polls or closes.

    def on_partitions_assigned(self, assigned):
        self.owned |= set(assigned)
        # Who leads, and by which strategy, the client doesn't tell.
        self.output.say("assigned", f"{self.consumer.group_metadata().generation_id} - - {word(self.owned)}")

    def on_partitions_revoked(self, revoked):
        self.output.say("revoked", word(revoked))
        self.owned -= set(revoked)

    def on_partitions_lost(self, lost):
        self.output.say("lost", word(lost))
        self.owned -= set(lost)


def one(arguments):
    """This program is a member."""
    member = Member(arguments, Output(""))

    def live():
        os._exit(0 if member.run() else 2)

    threading.Thread(target=live).start()
    for line in sys.stdin:
        member.commands.put(line.strip())


def many():
    """This program is a host of members."""
    members = {}
    for line in sys.stdin:
        name, rest = line.strip().split(" ", 1)
        if name == "new":
            arguments = rest.split(" ")
            name = arguments[0]
            members[name] = Member(arguments, Output(f"{name} "))
            threading.Thread(target=members[name].run).start()
        else:
            members[name].commands.put(rest)


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(levelname)s %(message)s")
    if len(sys.argv) > 1:
        one(sys.argv[1:])
    else:
        many()
    # Whoever wanted the members is gone.
    os._exit(1)
