"""Owns `admin` and `pipeline` of a client for plain threads: the same calls, which wait."""

from __future__ import annotations

from queenmq.client.admin import Admin
from queenmq.client.pipeline import Pipeline
from queenmq.client.sync.waiting import Waiter, waited


class SyncAdmin(Waiter[Admin]):
    """What operators ask for; see Admin for what the calls do."""

    get_overview = waited(Admin.get_overview)
    get_namespaces = waited(Admin.get_namespaces)
    get_tasks = waited(Admin.get_tasks)
    list_queues = waited(Admin.list_queues)
    get_queue = waited(Admin.get_queue)
    get_partitions = waited(Admin.get_partitions)
    clear_queue = waited(Admin.clear_queue)
    delete_partition = waited(Admin.delete_partition)
    list_messages = waited(Admin.list_messages)
    get_message = waited(Admin.get_message)
    delete_message = waited(Admin.delete_message)
    retry_message = waited(Admin.retry_message)
    move_message_to_dlq = waited(Admin.move_message_to_dlq)
    list_dead_letters = waited(Admin.list_dead_letters)
    retry_dead_letters = waited(Admin.retry_dead_letters)
    purge_dead_letters = waited(Admin.purge_dead_letters)
    add_trace = waited(Admin.add_trace)
    get_traces_by_name = waited(Admin.get_traces_by_name)
    get_trace_names = waited(Admin.get_trace_names)
    get_traces_for_message = waited(Admin.get_traces_for_message)
    why = waited(Admin.why)
    get_status = waited(Admin.get_status)
    get_queue_stats = waited(Admin.get_queue_stats)
    create_token = waited(Admin.create_token)
    list_tokens = waited(Admin.list_tokens)
    revoke_token = waited(Admin.revoke_token)
    get_audit = waited(Admin.get_audit)
    get_me = waited(Admin.get_me)
    get_queue_detail = waited(Admin.get_queue_detail)
    get_queue_messages = waited(Admin.get_queue_messages)
    get_buffers = waited(Admin.get_buffers)
    get_analytics = waited(Admin.get_analytics)
    refresh_consumer_stats = waited(Admin.refresh_consumer_stats)
    list_consumer_groups = waited(Admin.list_consumer_groups)
    get_consumer_group = waited(Admin.get_consumer_group)
    get_lagging_consumers = waited(Admin.get_lagging_consumers)
    delete_consumer_group_for_queue = waited(Admin.delete_consumer_group_for_queue)
    seek_consumer_group = waited(Admin.seek_consumer_group)
    seek_partition = waited(Admin.seek_partition)
    extend_lease = waited(Admin.extend_lease)
    run_transaction = waited(Admin.run_transaction)
    health = waited(Admin.health)
    metrics = waited(Admin.metrics)
    get_series = waited(Admin.get_series)
    get_shared_state = waited(Admin.get_shared_state)
    get_maintenance_mode = waited(Admin.get_maintenance_mode)
    set_maintenance_mode = waited(Admin.set_maintenance_mode)
    get_pop_maintenance_mode = waited(Admin.get_pop_maintenance_mode)
    set_pop_maintenance_mode = waited(Admin.set_pop_maintenance_mode)
    get_system_metrics = waited(Admin.get_system_metrics)
    get_worker_metrics = waited(Admin.get_worker_metrics)
    get_queue_lag = waited(Admin.get_queue_lag)
    get_queue_ops = waited(Admin.get_queue_ops)
    get_queue_parked_replicas = waited(Admin.get_queue_parked_replicas)
    get_postgres_stats = waited(Admin.get_postgres_stats)
    list_operations = waited(Admin.list_operations)
    get_operation = waited(Admin.get_operation)
    get_operation_stats = waited(Admin.get_operation_stats)
    retry_operation = waited(Admin.retry_operation)
    discard_operation = waited(Admin.discard_operation)
    list_set_aside = waited(Admin.list_set_aside)
    retry_all_operations = waited(Admin.retry_all_operations)


class SyncPipeline(Waiter[Pipeline]):
    """What jobs on Spark have found; see Pipeline for what the calls do."""

    list_runs = waited(Pipeline.list_runs)
    get_table = waited(Pipeline.get_table)
