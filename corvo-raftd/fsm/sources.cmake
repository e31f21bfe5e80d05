# The state machine, what fsm.h declares; floor by floor, the lowest first.
set(FSM_SOURCES
  fsm/core/entry.c fsm/core/scan.c fsm/core/budget.c fsm/core/clock.c
  fsm/core/answers.c fsm/core/cluster.c fsm/core/settings.c
  fsm/core/watch.c
  fsm/core/ended.c
  fsm/order/limiter.c fsm/order/rates.c fsm/order/window.c
  fsm/order/lane.c fsm/order/lane_window.c fsm/order/lane_load.c
  fsm/order/queue.c fsm/order/settings.c fsm/order/retention.c
  fsm/order/bounds.c fsm/order/roster.c
  fsm/order/lane_idle.c fsm/order/lane_delete.c fsm/order/lane_choose.c
  fsm/order/regroup.c
  fsm/job/job.c fsm/job/active.c fsm/job/create.c fsm/job/log.c
  fsm/job/life.c fsm/job/checkpoint.c fsm/job/iteration.c
  fsm/job/tag.c fsm/job/worker.c fsm/job/portion.c fsm/job/timing.c
  fsm/job/sdb.c
  fsm/ties/ties.c fsm/ties/unique.c fsm/ties/idempotency.c
  fsm/ties/backlog.c fsm/ties/deps.c fsm/ties/release.c fsm/ties/batch.c
  fsm/ties/chain.c fsm/ties/payload.c fsm/ties/schedule.c fsm/ties/bulk.c
  fsm/ties/usage.c fsm/ties/usage_set.c fsm/ties/usage_purge.c
  fsm/ties/usage_row.c fsm/ties/score.c fsm/ties/provider.c
  fsm/ties/price.c fsm/ties/inbound.c fsm/ties/purse.c fsm/ties/purse_job.c
  fsm/ties/purse_period.c fsm/ties/purse_show.c fsm/ties/purse_aside.c
  fsm/ties/agent.c
  fsm/ties/policy.c fsm/ties/link.c
  fsm/ask/leader.c fsm/ask/await.c fsm/ask/scale.c fsm/ask/why.c
  fsm/ask/why_push.c fsm/ask/push.c
  fsm/ask/why_limits.c fsm/ask/workers.c fsm/ask/usage.c fsm/ask/budgets.c
  fsm/ask/inbound.c fsm/ask/policies.c fsm/ask/webhooks.c fsm/ties/webhook.c
  fsm/ops/webhook.c fsm/ops/webhook_report.c
  fsm/ask/cluster.c
  fsm/ops/hand.c fsm/ops/act.c fsm/ops/enqueue.c fsm/ops/fetch.c
  fsm/ops/ack.c fsm/ops/lease.c fsm/ops/action.c fsm/ops/batch.c
  fsm/ops/bulk.c fsm/ops/queue.c fsm/ops/clear.c fsm/ops/schedule.c
  fsm/ops/timer.c fsm/ops/clock.c fsm/ops/purge.c fsm/ops/admin.c
  fsm/ops/cluster.c fsm/ops/settings.c fsm/ops/usage.c fsm/ops/budget.c
  fsm/ops/score.c fsm/ops/replay.c fsm/ops/inbound.c fsm/ops/policy.c
  fsm/ops/decide.c fsm/ops/sdb.c fsm/ops/rest.c
  fsm/fsm.c fsm/load.c fsm/dispatch.c fsm/fault.c fsm/skip.c)
