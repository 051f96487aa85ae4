"""Explains options of the Kafka source and of earlier releases. Pure."""

from __future__ import annotations

#: In lower case: options of earlier versions and of the Kafka source, and what to do instead.
OTHERS = {
    "pushdown": "the option pushDown was removed, because a frame that was used twice missed rows;"
    " pass the conditions in the option where",
    "subscribe": "the option subscribe is called queue here; it takes several names, too",
    "subscribepattern": "the option subscribePattern is called queuePattern here",
    "assign": "the option assign is queue and partitions here, which take names",
    "kafka.bootstrap.servers": "the option kafka.bootstrap.servers is url here: the database",
    "kafka.group.id": "the option kafka.group.id is consumerGroup here",
    "startingoffsetsbytimestamp": "startingOffsetsByTimestamp cannot be used, because a position"
    " holds for all queues of a read; give one time by startingTimestamp, or read the queues apart",
    "endingoffsetsbytimestamp": "endingOffsetsByTimestamp cannot be used, because a position holds"
    " for all queues of a read; give one time by endingTimestamp, or read the queues apart",
    "maxoffsetspertrigger": "the option maxOffsetsPerTrigger is maxMessagesPerTrigger here",
    "minoffsetspertrigger": "the option minOffsetsPerTrigger is minMessagesPerTrigger here",
    "includeheaders": "messages have no headers; trace_id and producer_sub are always there, and"
    " includeXid and deliveryState add columns",
}
