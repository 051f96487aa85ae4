"""Commands about queues, partitions and consumer groups."""
