"""Declares the subscribers of each kind of news, in order."""

from __future__ import annotations

from queenmq.engine.queued_pushes.processor import OperationProcessor
from queenmq.server.wiring.ground import Ground
from queenmq.server.wiring.joining import Joining
from queenmq.server.wiring.popping import Popping
from queenmq.server.wiring.pushing import Pushing
from queenmq.storage.connection.wake_listener import WakeListener


def declare_news(
    ground: Ground,
    *,
    pushing: Pushing,
    popping: Popping,
    processor: OperationProcessor,
    wake: WakeListener,
    joining: Joining,
) -> None:
    """Subscribe the parts. Consumers of this broker come before those of others."""
    news, pop, drain = ground.news, popping.pop, pushing.drain
    news.pushed.declare(pop.pushed, wake.notify_pushed)
    news.freed.declare(pop.freed, wake.notify_freed)
    news.returned.declare(wake.notify)
    news.pushed_elsewhere.declare(pop.pushed_elsewhere)
    news.listening.declare(pop.listening)
    news.queue_changed.declare(ground.catalogue.forget_queue, popping.subscriptions.forget)
    # A pop that is dismissed may come again at once, and must not find the old start.
    news.group_deleted.declare(popping.subscriptions.forget, pop.dismiss)
    news.operations_queued.declare(processor.notify_queued)
    news.retried.declare(drain.wake, processor.wake)
    news.spooled.declare(drain.note_spooled)
    # Calls end before the pushes that wait behind them move to the spool.
    news.database_down.declare(ground.database.cut_off, pushing.push.divert_to_spool)
    news.database_up.declare(joining.wake, drain.wake)
    news.pushes_buffered.declare(pushing.spool.set_buffering, lambda _: drain.wake())
    news.pops_paused.declare(pop.pause)
    news.group_paused.declare(pop.pause_group)
