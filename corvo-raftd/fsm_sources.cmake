# The state machine: what fsm.h declares.
set(FSM_SOURCES
  fsm.c fsm_load.c fsm_dispatch.c fsm_queue.c fsm_window.c fsm_job.c
  fsm_await.c fsm_rates.c fsm_scale.c fsm_why.c fsm_why_limits.c
  fsm_active.c fsm_hand.c fsm_log.c fsm_worker.c fsm_create.c
  fsm_unique.c fsm_idempotency.c
  fsm_settings.c fsm_portion.c fsm_due.c fsm_deps.c
  fsm_release.c
  fsm_lane.c fsm_lane_window.c fsm_lane_load.c fsm_limiter.c
  fsm_batch.c fsm_chain.c fsm_payload.c apply_batch.c
  apply_enqueue.c apply_fetch.c apply_ack.c apply_lease.c apply_admin.c
  apply_queue.c apply_clear.c apply_purge.c
  apply_timer.c apply_action.c fsm_act.c apply_bulk.c fsm_bulk.c
  apply_schedule.c fsm_schedule.c)
