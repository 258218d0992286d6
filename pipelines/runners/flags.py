"""Beam's flags by name, so that an unknown flag is refused without loading Beam."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence

from tracecloak.schemas.errors import UsageError

# Those of all of Beam's option classes; a test holds them to the Beam that is installed.
_OF_OPTIONS = """
    allow_non_deterministic_key_coders allow_unsafe_triggers application_id artifact_endpoint
    artifact_port artifacts_dir auto_unique_labels autoscaling_algorithm azure_connection_string
    azure_managed_identity_client_id beam_plugin beam_plugins beam_services
    blob_service_endpoint bootstrap_servers cloud_build_machine_type create_from_snapshot
    dataflow_endpoint dataflow_job_file dataflow_kms_key dataflow_service_option
    dataflow_service_options default_sdk_harness_log_level direct_embed_docker_python
    direct_num_workers direct_runner_bundle_repeat direct_running_mode direct_test_splits
    disable_beartype disk_provisioned_iops disk_provisioned_throughput_mibps disk_size_gb
    disk_type docker_registry_push_url dry_run element_processing_timeout_minutes
    enable_artifact_caching enable_bucket_read_metric_counter enable_bucket_write_metric_counter
    enable_gcsio_blob_generation enable_hot_key_logging enable_streaming_engine
    environment_cache_millis environment_config environment_option environment_options
    environment_type exclude_infer_dataclass_field_type expansion_port experiment experiments
    extra_package extra_packages file_to_stage files_to_stage flexrs_goal flink_job_server_jar
    flink_master flink_submit_uber_jar flink_version force_cloudpickle_deterministic_coders gbek
    gcp_oauth_scope gcp_oauth_scopes gcs_custom_audit_entries gcs_custom_audit_entry
    hdfs_full_urls hdfs_host hdfs_port hdfs_user impersonate_service_account jar_cache_dir
    job-server-timeout job_endpoint job_name job_port job_server_java_launcher
    job_server_jvm_properties job_server_jvm_property job_server_timeout
    kafka_streams_job_server_jar label labels machine_type maven_repository_url
    max_cache_memory_usage_mb max_num_workers max_parallelism min_cpu_platform network no_auth
    no_direct_runner_use_stacked_bundle no_gcsio_throttling_counter no_pipeline_type_check
    no_save_main_session no_use_public_ips no_wait_until_finish num_workers
    number_of_worker_harness_threads on_success_matcher output_executable_path parallelism
    performance_runtime_type_check pickle_library prebuild_sdk_container_base_image
    prebuild_sdk_container_engine prism_beam_version_override prism_location prism_log_kind
    prism_log_level profile_cpu profile_location profile_memory profile_postprocess_interval_sec
    profile_sample_rate profile_temp_location profile_upload_interval_sec profiler_agent
    profiler_extra_arg profiler_extra_args profiler_extra_env_var profiler_extra_env_vars
    profiler_stop_after_crash profiler_stop_after_sec project pubsub_root_url region
    requirements_cache requirements_cache_only_sources requirements_file resource_hint
    resource_hints runner runtime_type_check s3_access_key_id s3_api_version s3_disable_ssl
    s3_endpoint_url s3_region_name s3_secret_access_key s3_session_token s3_verify
    save_main_session sdk_container_image sdk_harness_container_image_overrides
    sdk_harness_log_level_overrides sdk_location sdk_worker_parallelism service_account_email
    setup_file spark_job_server_jar spark_master_url spark_rest_url spark_submit_uber_jar
    spark_version staging_location streaming subnetwork temp_location template_location
    transform_name_mapping type_check_additional type_check_strictness update
    update_compatibility_version use_public_ips use_transform_service user_agent
    wait_until_finish_duration worker_disk_type worker_harness_container_image
    worker_machine_type worker_region worker_zone zone
"""
# Those that Beam's Python learns from the job server for Flink, when it runs (Beam's documentation,
# "Pipeline options for the Flink runner").
_OF_JOB_SERVER = """
    allow_non_restored_state auto_balance_write_files_sharding_enabled auto_watermark_interval
    checkpoint_timeout_millis checkpointing_interval checkpointing_mode disable_metrics
    execution_mode_for_batch execution_retry_delay externalized_checkpoints_enabled
    fail_on_checkpointing_errors faster_copy finish_bundle_before_checkpointing flink_conf_dir
    latency_tracking_interval max_bundle_size max_bundle_time_mills
    min_pause_between_checkpoints num_concurrent_checkpoints number_of_execution_retries
    object_reuse operator_chaining re_iterable_group_by_key_result report_checkpoint_duration
    retain_externalized_checkpoints_on_cancellation savepoint_path
    shutdown_sources_after_idle_ms state_backend state_backend_factory
    state_backend_storage_path
"""
# A slip of the fingers leaves more than this in common; --epsilon and --version have less.
_ALIKE = 0.8
BEAM_FLAGS = frozenset(f"--{name}" for name in (_OF_OPTIONS + _OF_JOB_SERVER).split())


def refuse_unknown(arguments: Sequence[str], ours: Iterable[str], hint: str = "") -> None:
    """Makes sure that Beam knows the flags that our own command line does not know.

    Args:
        arguments: The arguments that our command line did not take.
        ours: Our own flags, of which a similar one is suggested.
        hint: What else may mend an unknown flag, for where no flag is similar.

    Raises:
        UsageError: Neither knows a flag.
    """
    takes_value = False
    for argument in arguments:
        flag = argument.split("=", 1)[0]
        if not flag.startswith("-"):
            if not takes_value:
                raise UsageError(f"unknown argument {argument!r}; a configuration file comes first")
            takes_value = False
            continue
        takes_value = "=" not in argument
        if flag not in BEAM_FLAGS:
            close = difflib.get_close_matches(flag, [*ours, *sorted(BEAM_FLAGS)], 1, _ALIKE)
            mend = f"; did you mean {close[0]}?" if close else hint
            raise UsageError(f"unknown flag {flag}{mend}")
