/*
 * The settings that all nodes of a cluster share: what apply reads, and what
 * the leader acts by. One record, with what the flags said that were taken over
 * last, so that a node can tell whether somebody has changed a flag since.
 */
#ifndef CORVO_FSM_CORE_SETTINGS_H
#define CORVO_FSM_CORE_SETTINGS_H

#include "fsm/core/state.h"

int cluster_settings_load(struct fsm *f);
void cluster_settings_save(struct fsm *f);

#endif
