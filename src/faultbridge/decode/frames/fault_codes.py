"""Translates numbers to fault codes: DCGM errors (`DCGM_FR_*` of DCGM 4.6) and Xids."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

# The position of a name is its number; the first is 0.
_NAMES = """
    ok unknown unrecognized pci_replay_rate volatile_dbe_detected volatile_sbe_detected pending_page_retirements
    retired_pages_limit retired_pages_dbe_limit corrupt_inforom clocks_event_thermal power_unreadable
    clocks_event_power nvlink_error_threshold nvlink_down nvswitch_fatal_error nvswitch_non_fatal_error
    nvswitch_down no_access_to_file nvml_api device_count_mismatch bad_parameter cannot_open_lib
    denylisted_driver nvml_lib_bad graphics_processes hostengine_conn field_query bad_cuda_env persistence_mode
    low_bandwidth high_latency cannot_get_field_tag field_violation field_threshold field_violation_dbl
    field_threshold_dbl unsupported_field_type field_threshold_ts field_threshold_ts_dbl thermal_violations
    thermal_violations_ts temp_violation clocks_event_violation internal pcie_generation pcie_width aborted
    test_disabled cannot_get_stat stress_level cuda_api faulty_memory cannot_set_watches cuda_unbound
    ecc_disabled memory_alloc cuda_dbe memory_mismatch cuda_device ecc_unsupported ecc_pending memory_bandwidth
    target_power api_fail api_fail_gpu cuda_context dcgm_api concurrent_gpus too_many_errors
    nvlink_crc_error_threshold nvlink_error_critical enforced_power_limit memory_alloc_host gpu_op_mode
    no_memory_clocks no_graphics_clocks had_to_restore_state l1tag_unsupported l1tag_miscompare
    row_remap_failure uncontained_error empty_gpu_list dbe_pending_page_retirements uncorrectable_row_remap
    pending_row_remap broken_p2p_memory_device broken_p2p_writer_device nvswitch_nvlink_down
    eud_binary_permissions eud_non_root_user eud_spawn_failure eud_timeout eud_zombie eud_non_zero_exit_code
    eud_test_failed file_create_permissions pause_resume_failed pcie_h_replay_violation gpu_expected_nvlinks_up
    nvswitch_expected_nvlinks_up xid_error sbe_violation dbe_violation pcie_replay_violation
    sbe_threshold_violation dbe_threshold_violation pcie_replay_threshold_violation cuda_fm_not_initialized
    sxid_error gflops_threshold_violation nan_value fabric_manager_training_error broken_p2p_pcie_memory_device
    broken_p2p_pcie_writer_device broken_p2p_nvlink_memory_device broken_p2p_nvlink_writer_device test_skipped
    sram_threshold nvlink_effective_ber_threshold fallen_off_bus nvlink_symbol_ber_threshold imex_unhealthy
    fabric_probe_state binary_permissions gpu_recovery_reset gpu_recovery_reboot gpu_recovery_drain_p2p
    gpu_recovery_drain_reset nccl_error retest_requested contained_error uncorrectable_row_remap_limit
""".split()  # noqa: SIM905 - a quoted list could not be compared with DCGM's numbers
# Errors that DCGM rates CONFIG. DCGM also rates a missing GPU and a narrow PCIe link CONFIG; those are hardware
# faults of a node and are left out here.
_SETTINGS = """
    no_access_to_file denylisted_driver bad_cuda_env persistence_mode aborted
    test_disabled ecc_disabled ecc_unsupported concurrent_gpus enforced_power_limit l1tag_unsupported
    empty_gpu_list file_create_permissions fabric_manager_training_error test_skipped
""".split()  # noqa: SIM905 - as above

CODES: tuple[str, ...] = tuple(f"dcgm.{name}" for name in _NAMES)
SETTINGS: frozenset[str] = frozenset(f"dcgm.{name}" for name in _SETTINGS)


def code_of_number(number: int) -> str:
    """Return the fault code of a DCGM error number.

    For example, the code of number 45 is `dcgm.pcie_generation`. If DCGM 4.6 does not define a number, the code
    contains the number: the code of 999 is `dcgm.error_999`.
    """
    return CODES[number] if 0 <= number < len(CODES) else f"dcgm.error_{number}"


XIDS: tuple[str, ...] = tuple(f"xid.{number}" for number in range(1, 177))
_FAMILIES = {"xid.*": XIDS, "dcgm.*": CODES}


def code_in_family(family: str, number: int) -> str:
    """Return the fault code of a number in a family of codes: number 79 of family `xid` is `xid.79`."""
    return code_of_number(number) if family == "dcgm" else f"{family}.{number}"


def expand_families(codes: Iterable[str]) -> Iterator[str]:
    """Yield fault codes, with each family name (`xid.*`, `dcgm.*`) replaced by all codes of that family."""
    for code in codes:
        yield from _FAMILIES.get(code, (code,))
