# What tests of the state machine have in common, also those of tests/sim.
set(FSM_FIXTURE fsm_fixture.c fsm_twin.c tap_kv.c fsm_check.c fsm_check_batch.c
  fsm_check_bulk.c fsm_check_lane.c fsm_check_schedule.c fsm_check_ties.c
  fsm_check_usage.c fsm_check_purse.c fsm_check_agent.c
  fsm_check_inbound.c fsm_check_policy.c fsm_check_webhook.c
  fsm_check_sdb.c)
