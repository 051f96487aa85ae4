"""Owns `admin` and `pipeline` of a client for plain threads: the same calls, which wait."""

from __future__ import annotations

from queenmq.client.admin import Admin
from queenmq.client.pipeline import Pipeline
from queenmq.client.sync.waiting import Waiter, wait_for_method


class SyncAdmin(Waiter[Admin]):
    """Calls for operators. See Admin."""

    get_overview = wait_for_method(Admin.get_overview)
    get_namespaces = wait_for_method(Admin.get_namespaces)
    get_tasks = wait_for_method(Admin.get_tasks)
    list_queues = wait_for_method(Admin.list_queues)
    get_queue = wait_for_method(Admin.get_queue)
    get_partitions = wait_for_method(Admin.get_partitions)
    clear_queue = wait_for_method(Admin.clear_queue)
    delete_partition = wait_for_method(Admin.delete_partition)
    get_queue_partitions = wait_for_method(Admin.get_queue_partitions)
    get_partition = wait_for_method(Admin.get_partition)
    list_messages = wait_for_method(Admin.list_messages)
    get_message = wait_for_method(Admin.get_message)
    delete_message = wait_for_method(Admin.delete_message)
    retry_message = wait_for_method(Admin.retry_message)
    move_message_to_dlq = wait_for_method(Admin.move_message_to_dlq)
    list_dead_letters = wait_for_method(Admin.list_dead_letters)
    get_dead_letter_errors = wait_for_method(Admin.get_dead_letter_errors)
    retry_dead_letters = wait_for_method(Admin.retry_dead_letters)
    purge_dead_letters = wait_for_method(Admin.purge_dead_letters)
    add_trace = wait_for_method(Admin.add_trace)
    get_traces_by_name = wait_for_method(Admin.get_traces_by_name)
    get_trace_names = wait_for_method(Admin.get_trace_names)
    get_traces_for_message = wait_for_method(Admin.get_traces_for_message)
    why = wait_for_method(Admin.why)
    get_status = wait_for_method(Admin.get_status)
    get_queue_stats = wait_for_method(Admin.get_queue_stats)
    create_token = wait_for_method(Admin.create_token)
    list_tokens = wait_for_method(Admin.list_tokens)
    revoke_token = wait_for_method(Admin.revoke_token)
    get_audit = wait_for_method(Admin.get_audit)
    get_me = wait_for_method(Admin.get_me)
    get_queue_detail = wait_for_method(Admin.get_queue_detail)
    get_queue_messages = wait_for_method(Admin.get_queue_messages)
    get_buffers = wait_for_method(Admin.get_buffers)
    get_analytics = wait_for_method(Admin.get_analytics)
    refresh_consumer_stats = wait_for_method(Admin.refresh_consumer_stats)
    list_consumer_groups = wait_for_method(Admin.list_consumer_groups)
    get_consumer_group = wait_for_method(Admin.get_consumer_group)
    get_lagging_consumers = wait_for_method(Admin.get_lagging_consumers)
    delete_consumer_group_for_queue = wait_for_method(Admin.delete_consumer_group_for_queue)
    seek_consumer_group = wait_for_method(Admin.seek_consumer_group)
    seek_partition = wait_for_method(Admin.seek_partition)
    preview_seek = wait_for_method(Admin.preview_seek)
    release_lease = wait_for_method(Admin.release_lease)
    pause_consumer_group = wait_for_method(Admin.pause_consumer_group)
    resume_consumer_group = wait_for_method(Admin.resume_consumer_group)
    extend_lease = wait_for_method(Admin.extend_lease)
    run_transaction = wait_for_method(Admin.run_transaction)
    health = wait_for_method(Admin.health)
    metrics = wait_for_method(Admin.metrics)
    get_series = wait_for_method(Admin.get_series)
    get_shared_state = wait_for_method(Admin.get_shared_state)
    get_maintenance_mode = wait_for_method(Admin.get_maintenance_mode)
    set_maintenance_mode = wait_for_method(Admin.set_maintenance_mode)
    get_pop_maintenance_mode = wait_for_method(Admin.get_pop_maintenance_mode)
    set_pop_maintenance_mode = wait_for_method(Admin.set_pop_maintenance_mode)
    get_system_metrics = wait_for_method(Admin.get_system_metrics)
    get_worker_metrics = wait_for_method(Admin.get_worker_metrics)
    get_queue_lag = wait_for_method(Admin.get_queue_lag)
    get_queue_ops = wait_for_method(Admin.get_queue_ops)
    get_queue_parked_replicas = wait_for_method(Admin.get_queue_parked_replicas)
    get_postgres_stats = wait_for_method(Admin.get_postgres_stats)
    list_operations = wait_for_method(Admin.list_operations)
    get_operation = wait_for_method(Admin.get_operation)
    get_operation_stats = wait_for_method(Admin.get_operation_stats)
    retry_operation = wait_for_method(Admin.retry_operation)
    discard_operation = wait_for_method(Admin.discard_operation)
    list_set_aside = wait_for_method(Admin.list_set_aside)
    retry_all_operations = wait_for_method(Admin.retry_all_operations)


class SyncPipeline(Waiter[Pipeline]):
    """Results of jobs on Spark. See Pipeline."""

    list_runs = wait_for_method(Pipeline.list_runs)
    get_table = wait_for_method(Pipeline.get_table)
