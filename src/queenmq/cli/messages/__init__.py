"""Commands about messages: push, pop, ack, tail, messages, trace, dlq."""
